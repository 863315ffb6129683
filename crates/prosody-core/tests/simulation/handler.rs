//! Handlers of one member, which do what their messages' scripts say.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use prosody_core::attempt::{Attempt, CancelReason, StateError};
use prosody_core::handler::Handler;
use prosody_core::in_process::MemberId;
use prosody_core::ledger::Coordinate;
use prosody_core::outcome::{Failure, FailureClass, Outcome};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::plan::{Act, Script};
use super::truth::{Run, Truth};

pub fn cell(collection: &str, coordinate: &'static str) -> Coordinate {
    Coordinate::Cell {
        collection: collection.into(),
        coordinate: Bytes::from_static(coordinate.as_bytes()),
    }
}

/// Holds the offsets of all messages of the key that have had their effect.
pub fn applied() -> Coordinate {
    cell("applied", "")
}

/// Is written by attempts that take it back.
pub fn scratch() -> Coordinate {
    cell("applied", "scratch")
}

/// Is committed in the middle of attempts.
pub fn published() -> Coordinate {
    cell("published", "")
}

pub struct Scripted {
    pub member: MemberId,
    pub truth: Arc<Truth>,
    pub tasks: Mutex<JoinSet<()>>,
    pub stops: Mutex<BTreeMap<usize, Arc<Notify>>>,
}

impl Scripted {
    pub fn new(member: MemberId, truth: Arc<Truth>) -> Self {
        Self {
            member,
            truth,
            tasks: Mutex::default(),
            stops: Mutex::default(),
        }
    }

    /// Ends as a process does.
    pub fn kill(&self) {
        self.tasks.lock().unwrap().abort_all();
    }
}

fn address(attempt: &Arc<Attempt>) -> usize {
    Arc::as_ptr(attempt) as usize
}

impl Handler for Scripted {
    fn start(&self, attempt: Arc<Attempt>) {
        let stop = Arc::new(Notify::new());
        let mut stops = self.stops.lock().unwrap();
        stops.insert(address(&attempt), Arc::clone(&stop));
        let script = self.truth.next_script(&attempt);
        let (truth, member) = (Arc::clone(&self.truth), self.member);
        self.tasks.lock().unwrap().spawn(async move {
            sleep(script.wait).await;
            if attempt.begin() {
                handle(truth, member, attempt, &stop).await;
            }
        });
    }

    fn stop(&self, attempt: &Arc<Attempt>) {
        if let Some(stop) = self.stops.lock().unwrap().get(&address(attempt)) {
            stop.notify_one();
        }
    }
}

async fn handle(truth: Arc<Truth>, member: MemberId, attempt: Arc<Attempt>, stop: &Notify) {
    let begun = Instant::now();
    let run = truth.begin(member, &attempt);
    let worked = work(&truth, &run, &attempt).await;
    if let Err(error) = worked
        && !attempt.is_over()
        && !matches!(error, StateError::NotCommitted { .. })
    {
        truth.violation(format!("message {}: {error}", run.message));
    }
    let outcome = outcome(&run.script, &attempt, stop).await;
    let ran = begun.elapsed();
    if attempt.cancel_reason() == Some(CancelReason::Deadline) && ran < truth.timeout() {
        truth.violation(format!("message {}: stopped after {ran:?}", run.message));
    }
    // What follows is no part of the handler any more, and may be overtaken by the next one.
    truth.end(run, &outcome);
    attempt.finish(outcome);
}

async fn work(truth: &Truth, run: &Run, attempt: &Arc<Attempt>) -> Result<(), StateError> {
    if !attempt.has_ledger() {
        return Ok(());
    }
    let text =
        |item: Option<Bytes>| item.map(|item| String::from_utf8(item.to_vec()).unwrap_or_default());
    let before = text(attempt.read(&applied())?).unwrap_or_default();
    let seen = text(attempt.read(&published())?);
    truth.read(run, &before, seen.as_deref());
    let mut after = before.clone();
    if !after.is_empty() {
        after.push(',');
    }
    after.push_str(&run.place.1.to_string());
    attempt.write(applied(), after.as_bytes())?;
    if run.script.rolls_back {
        attempt.write(scratch(), b"scratch")?;
        attempt.rollback("applied")?;
        let back = text(attempt.read(&applied())?).unwrap_or_default();
        if back != before || attempt.read(&scratch())?.is_some() {
            truth.violation(format!("message {}: rollback left {back}", run.message));
        }
        attempt.write(applied(), after.as_bytes())?;
    }
    if run.script.publishes {
        // Two at a time: the later one stays, whichever is waited for first.
        let value = format!("{:x}", run.serial);
        attempt.write(published(), b"earlier")?;
        let earlier = attempt.publish("published".into())?;
        truth.publishes(run, "earlier");
        attempt.write(published(), value.as_bytes())?;
        let publication = attempt.publish("published".into())?;
        truth.publishes(run, &value);
        let (later, earlier) = futures::join!(publication, earlier);
        earlier?;
        later?;
        truth.published(run, &value);
        let back = text(attempt.read(&published())?);
        if back.as_deref() != Some(&*value) {
            truth.violation(format!("message {}: published, read {back:?}", run.message));
        }
    }
    Ok(())
}

async fn outcome(script: &Script, attempt: &Attempt, stop: &Notify) -> Outcome {
    tokio::select! {
        biased;
        () = stop.notified(), if script.obeys => return Outcome::Stopped,
        () = attempt.cancelled(), if script.listens => {}
        () = sleep(script.work) => {}
    }
    let class = match script.act {
        Act::Succeed => return Outcome::Success,
        Act::Exit => return Outcome::Exit,
        Act::FailTransient => FailureClass::Transient,
        Act::FailPermanent => FailureClass::Permanent,
    };
    Outcome::Failed(Failure {
        class,
        error: "Scripted".to_owned(),
        message: String::new(),
        backtrace: Vec::new(),
    })
}
