//! What never reaches a handler.

use bytes::Bytes;

use super::rig::*;
use crate::journey::SOURCE_SYSTEM_HEADER;
use crate::outcome::Outcome;
use crate::record::Headers;

fn source(name: Option<&'static str>) -> Headers {
    let value = name.map(|name| Bytes::from_static(name.as_bytes()));
    Headers::new(vec![(Bytes::from_static(SOURCE_SYSTEM_HEADER), value)])
}

#[tokio::test(start_paused = true)]
async fn a_service_does_not_hear_itself() {
    let rig = Rig::start(1, settings());
    rig.send_with("own", "1", source(Some(GROUP)));
    rig.send_with("other", "1", source(Some("other")));
    rig.send_with("none", "1", source(None));
    // Does not even have to decode.
    rig.send_with("own", "{", source(Some(GROUP)));
    rig.settle().await;
    assert_eq!(rig.puppet.places(), [(0, 1), (0, 2)]);
    for attempt in rig.puppet.running() {
        rig.puppet.end(&attempt, Outcome::Success);
    }
    rig.settle().await;
    assert_eq!(rig.committed(0), Some(4));
}

#[tokio::test(start_paused = true)]
async fn only_wanted_types_are_handled() {
    let mut settings = settings();
    settings.allowed_events = Some(vec!["order.".into(), "invoice".into()]);
    let rig = Rig::start(1, settings);
    for payload in [
        r#"{"type": "order.created"}"#,
        r#"{"type": "order"}"#,
        r#"{"type": "invoiced"}"#,
        r#"{"type": "user.created"}"#,
        r#"{"type": 1}"#,
        "[1]",
    ] {
        rig.send("", payload);
    }
    rig.settle().await;
    // What has no String as its type is not filtered.
    assert_eq!(rig.puppet.places(), [(0, 0), (0, 2), (0, 4), (0, 5)]);
}

#[tokio::test(start_paused = true)]
async fn what_is_filtered_leaves_no_mark() {
    let mut settings = settings();
    settings.allowed_events = Some(vec!["wanted".into()]);
    let rig = Rig::start(1, settings);
    rig.send("key", r#"{"type": "unwanted", "id": 1}"#);
    rig.send("key", r#"{"type": "wanted", "id": 1}"#);
    rig.settle().await;
    assert_eq!(rig.puppet.places(), [(0, 1)]);
    rig.end_only(Outcome::Success).await;
    assert_eq!(rig.committed(0), Some(2));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_decode_is_done_without_a_handler() {
    let rig = Rig::start(1, settings());
    rig.send("key", "{");
    rig.send("", "{");
    rig.send("key", "2");
    rig.settle().await;
    assert_eq!(rig.puppet.places(), [(0, 2)]);
    assert_eq!(rig.committed(0), Some(2));
}
