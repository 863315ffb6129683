//! What a run is to be: drawn from its seed before anything happens, so that the end is known.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use prosody_core::backoff::Backoff;
use prosody_core::consumer::ConsumerSettings;
use prosody_core::journey::SOURCE_SYSTEM_HEADER;
use prosody_core::outcome::Mode;
use prosody_core::record::{Headers, OutgoingRecord};

pub const GROUP: &str = "group";
pub const TOPIC: &str = "topic";

/// What becomes of ledgers when their partition moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The next owner has them.
    Shared,
    /// Each member has a store of its own, in memory.
    PerMember,
}

#[derive(Debug)]
pub struct Plan {
    pub seed: u64,
    pub durability: Durability,
    pub partitions: i32,
    pub members_max: usize,
    pub settings: ConsumerSettings,
    pub messages: Vec<Message>,
    /// Things that happen to members.
    pub steps: usize,
    /// Whether members are expelled and crash, and commits stay unanswered.
    pub rough: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reaches its handler.
    Plain,
    /// Is no JSON.
    Undecodable,
    /// Comes from the group itself.
    Own,
    /// Has a type that is not wanted.
    Unwanted,
}

#[derive(Clone, Debug)]
pub struct Message {
    pub number: usize,
    pub key: Option<String>,
    pub kind: Kind,
    /// Its `id`; the same again makes a duplicate.
    pub id: Option<u32>,
    /// What its handler does at each attempt; the last one from then on.
    pub scripts: Vec<Script>,
    pub wait_before: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Succeed,
    FailTransient,
    FailPermanent,
    Exit,
}

/// What a handler does when it is to end before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Returns as soon as it should.
    Returns,
    /// Is interrupted.
    Stops,
    /// Nothing.
    GoesOn,
}

/// One attempt.
#[allow(clippy::struct_excessive_bools)] // each is drawn by itself
#[derive(Clone, Copy, Debug)]
pub struct Script {
    /// Until it begins.
    pub wait: Duration,
    pub work: Duration,
    pub when_cancelled: Reaction,
    pub publishes: bool,
    pub rolls_back: bool,
    pub act: Act,
}

impl Plan {
    pub fn from_seed(seed: u64, durability: Durability) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mode = [Mode::Pipeline, Mode::Pipeline, Mode::BestEffort][rng.usize(..3)];
        let settings = settings(&mut rng, mode);
        let keys = rng.usize(1..=8);
        let count = rng.usize(20..=100);
        let messages = (0..count)
            .map(|number| message(&mut rng, number, keys, &settings))
            .collect();
        Self {
            seed,
            durability,
            partitions: rng.i32(1..=4),
            members_max: rng.usize(1..=4),
            settings,
            messages,
            steps: rng.usize(0..=12),
            rough: rng.u8(..4) > 0,
        }
    }
}

fn ms(rng: &mut Rng, range: std::ops::RangeInclusive<u64>) -> Duration {
    Duration::from_millis(rng.u64(range))
}

fn settings(rng: &mut Rng, mode: Mode) -> ConsumerSettings {
    ConsumerSettings {
        group_id: GROUP.into(),
        mode,
        max_concurrency: rng.usize(1..=6),
        max_uncommitted: rng.usize(1..=20),
        // Without a second attempt, whether a handler meets its deadline would decide its effect.
        timeout: if mode == Mode::BestEffort {
            Duration::from_secs(60)
        } else {
            ms(rng, 200..=1_000)
        },
        commit_interval: ms(rng, 20..=500),
        shutdown_timeout: ms(rng, 100..=1_500),
        stall_threshold: Duration::from_secs(10),
        allowed_events: rng.bool().then(|| vec!["wanted.".into()]),
        idempotence_field: Some("id".to_owned()),
        idempotence_version: "1".to_owned(),
        idempotence_ttl: Duration::from_secs(7 * 24 * 3_600),
        retry: Backoff {
            base: ms(rng, 5..=40),
            max: Duration::from_millis(200),
        },
        // A small one forgets ledgers all the time.
        state_cache_size_bytes: [4 << 10, 1 << 20][rng.usize(..2)],
    }
}

fn message(rng: &mut Rng, number: usize, keys: usize, settings: &ConsumerSettings) -> Message {
    let kind = match rng.u8(..20) {
        0 => Kind::Undecodable,
        1 => Kind::Own,
        2 if settings.allowed_events.is_some() => Kind::Unwanted,
        _ => Kind::Plain,
    };
    let mut wait_before = Duration::ZERO;
    if rng.u8(..3) == 0 {
        wait_before = ms(rng, 0..=250);
    }
    Message {
        number,
        key: (rng.u8(..12) > 0).then(|| format!("key-{}", rng.usize(..keys))),
        kind,
        id: (rng.u8(..3) == 0).then(|| rng.u32(..40)),
        scripts: scripts(rng, settings),
        wait_before,
    }
}

fn scripts(rng: &mut Rng, settings: &ConsumerSettings) -> Vec<Script> {
    let best_effort = settings.mode == Mode::BestEffort;
    let last = match rng.u8(..20) {
        0 => Act::FailPermanent,
        // Whether the first or the tenth attempt is settled, it has no effect.
        1 if best_effort => Act::FailTransient,
        _ => Act::Succeed,
    };
    let mut scripts = Vec::new();
    if !best_effort {
        while rng.u8(..5) == 0 {
            scripts.push(troubled(rng, settings));
        }
    }
    scripts.push(script(rng, last));
    scripts
}

fn script(rng: &mut Rng, act: Act) -> Script {
    let mut wait = Duration::ZERO;
    if rng.u8(..4) == 0 {
        wait = ms(rng, 0..=20);
    }
    Script {
        wait,
        work: ms(rng, 0..=40),
        when_cancelled: match rng.u8(..5) {
            0 => Reaction::Returns,
            1 => Reaction::GoesOn,
            _ => Reaction::Stops,
        },
        publishes: rng.u8(..5) == 0,
        rolls_back: rng.u8(..5) == 0,
        act,
    }
}

/// An attempt after which there is another one, as a rule.
fn troubled(rng: &mut Rng, settings: &ConsumerSettings) -> Script {
    let mut script = script(rng, Act::FailTransient);
    let timeout_ms = u64::try_from(settings.timeout.as_millis()).unwrap();
    match rng.u8(..8) {
        0 | 1 => {
            // Runs into its deadline.
            script.work = ms(rng, timeout_ms * 2..=timeout_ms * 3);
        }
        2 => {
            // Waits for its turn for longer than a handler may run.
            script.wait = ms(rng, timeout_ms..=timeout_ms * 3);
        }
        3 => {
            // Outlives everything.
            script.when_cancelled = Reaction::GoesOn;
            script.work = ms(rng, 2_000..=6_000);
        }
        4 if rng.u8(..4) == 0 => script.act = Act::Exit,
        _ => {}
    }
    script
}

impl Message {
    pub fn record(&self) -> OutgoingRecord {
        let event_type = match self.kind {
            Kind::Unwanted => "other.event",
            _ => "wanted.event",
        };
        let id = self
            .id
            .map_or_else(String::new, |id| format!(r#", "id": {id}"#));
        let payload = match self.kind {
            Kind::Undecodable => "{".to_owned(),
            _ => format!(
                r#"{{"type": "{event_type}", "number": {}{id}}}"#,
                self.number
            ),
        };
        let headers = match self.kind {
            Kind::Own => vec![(
                Bytes::from_static(SOURCE_SYSTEM_HEADER),
                Some(Bytes::from_static(GROUP.as_bytes())),
            )],
            _ => Vec::new(),
        };
        OutgoingRecord {
            topic: Arc::from(TOPIC),
            key: self.key.clone().map(Bytes::from),
            payload: Some(Bytes::from(payload)),
            headers: Headers::new(headers),
        }
    }

    pub fn script(&self, attempt: usize) -> Script {
        self.scripts[attempt.min(self.scripts.len() - 1)]
    }

    /// What its last attempt comes to, if it is handled at all.
    pub fn act(&self) -> Act {
        self.scripts[self.scripts.len() - 1].act
    }

    pub fn reaches_the_journey(&self) -> bool {
        !matches!(self.kind, Kind::Own | Kind::Unwanted)
    }

    /// Whether its handler succeeds in the end, after these ids of its key were handled.
    pub fn has_effect(&self, handled_ids: &mut HashSet<u32>) -> bool {
        let succeeds = self.kind == Kind::Plain && self.act() == Act::Succeed;
        succeeds && self.id.is_none_or(|id| handled_ids.insert(id))
    }
}
