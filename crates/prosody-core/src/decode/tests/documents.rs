//! Random documents, whole and damaged, against `serde_json::Value`.

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn documents() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[a-z]{0,6}",
        any::<String>(),
        Just("id".to_owned()),
        Just("type".to_owned()),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        let fields = prop::collection::btree_map(text.clone(), inner.clone(), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(Value::from),
            fields.prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Pieces that are likely to matter.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        "\"",
        ":",
        ",",
        "-",
        "0",
        "1",
        ".",
        "e",
        "E",
        "+",
        "\\",
        "\\u",
        "\\ud800",
        "\\udc00",
        "\\u0069",
        "null",
        "true",
        "NaN",
        "Infinity",
        "/*",
        "//",
        " ",
        "\n",
        "\u{feff}",
        "\"id\":",
        "\"id\":1,",
        "\"type\":\"a\",",
        "1e400",
        "\0",
        "\u{1f}",
    ]);
    prop_oneof![
        8 => known.prop_map(|piece| piece.as_bytes().to_vec()),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ]
}

/// Escapes as Rust's serialiser never writes them.
fn escape_all(text: &str) -> String {
    let mut escaped = String::new();
    for unit in text.encode_utf16() {
        write!(escaped, "\\u{unit:04X}").unwrap();
    }
    escaped
}

/// What `serde_json::Value` says of a text; nothing where it gives up at a number that does not fit
/// a float.
fn reference(payload: &[u8]) -> Option<bool> {
    match serde_json::from_slice::<Value>(payload) {
        Ok(_) => Some(true),
        Err(error) if error.to_string().starts_with("number out of range") => None,
        Err(_) => Some(false),
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn expected(value: &Value) -> (Option<IdempotenceId>, Option<String>) {
    let id = match &value["id"] {
        Value::String(text) => Some(string(text)),
        Value::Number(number) => IdempotenceId::integer(&number.to_string()),
        _ => None,
    };
    (id, value["type"].as_str().map(str::to_owned))
}

fn agrees(payload: &[u8]) -> Result<(), TestCaseError> {
    let reference = reference(payload);
    prop_assume!(!payload.is_empty() && reference.is_some());
    prop_assert_eq!(Some(check(payload).is_ok()), reference);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn whole_documents_decode_and_show_their_fields(document in documents(), pretty: bool) {
        let text = if pretty {
            serde_json::to_string_pretty(&document).unwrap()
        } else {
            document.to_string()
        };
        prop_assert!(depth(&document) <= NESTING_MAX);
        prop_assert_eq!(check(text.as_bytes()), Ok(()));
        prop_assert_eq!(found(&text), expected(&document));
    }

    #[test]
    fn damaged_documents_decode_if_they_are_json(
        document in documents(),
        damages in prop::collection::vec((any::<prop::sample::Index>(), 0..3_usize, pieces()), 1..4),
    ) {
        let mut payload = document.to_string().into_bytes();
        for (index, removed, piece) in damages {
            let at = index.index(payload.len() + 1);
            let until = (at + removed).min(payload.len());
            payload.splice(at..until, piece);
        }
        agrees(&payload)?;
    }

    #[test]
    fn pieces_decode_if_they_are_json(pieces in prop::collection::vec(pieces(), 1..12)) {
        let payload = pieces.concat();
        agrees(&payload)?;
    }

    #[test]
    fn any_bytes_do_no_harm(payload: Vec<u8>) {
        agrees(&payload)?;
    }

    #[test]
    fn escapes_make_no_difference(text: String, surplus in "[a-z\\[\\]\"{}]{0,8}") {
        let escaped = escape_all(&text);
        let surplus = Value::from(surplus);
        let payload = format!(
            r#"{{"a":{surplus},"{}":"{escaped}","{}":"{escaped}"}}"#,
            escape_all("id"),
            escape_all("type"),
        );
        prop_assert_eq!(found(&payload), (Some(string(&text)), Some(text)));
    }

    #[test]
    fn whatever_is_last_wins(fields in prop::collection::vec(("id|type|a", documents()), 0..6)) {
        let body: Vec<_> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        let payload = format!("{{{}}}", body.join(","));
        let value = serde_json::from_str(&payload).unwrap();
        prop_assert_eq!(found(&payload), expected(&value));
    }

    #[test]
    fn depth_is_counted_as_the_parser_counts(
        levels in 95..106_usize,
        object: bool,
        aside in documents(),
    ) {
        let (open, close) = if object { (r#"{"a":"#, "}") } else { ("[", "]") };
        let deep = open.repeat(levels) + "1" + &close.repeat(levels);
        let payload = format!("[{aside},{deep},{aside}]");
        let decodes = levels < NESTING_MAX;
        prop_assert_eq!(check(payload.as_bytes()).is_ok(), decodes);
    }
}
