//! Describes topics, with a client of its own that lives for one call.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use prosody_core::log::{LogError, TopicDescription};
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::ffi::{DescribedTopic, NativeError, Replies, Reply};
use crate::health::{self, Health};
use crate::options::refused;
use crate::partitions::check_topic;
use crate::wake::{Waker, deadline};

/// Between two looks at what librdkafka reports while an answer is waited for.
const REPORT_INTERVAL: Duration = Duration::from_millis(20);
/// What stays of the caller's limit for telling why there was no answer.
const RESERVE: Duration = Duration::from_millis(50);

/// What librdkafka calls back for clients that are no members of a group.
#[derive(Debug)]
pub(crate) struct QuietContext(pub Arc<Health>);

impl ClientContext for QuietContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        health::log(level, facility, line);
    }

    fn stats_raw(&self, _: &[u8]) {}

    fn error(&self, error: KafkaError, reason: &str) {
        self.0.report(&error, reason);
    }
}

impl ConsumerContext for QuietContext {}

/// Describes topics within a limit, on a thread of its own. Regular expressions are left out.
pub(crate) async fn describe(
    config: ClientConfig,
    topics: &[String],
    limit: Duration,
) -> Result<Vec<TopicDescription>, LogError> {
    let named: BTreeSet<String> = topics
        .iter()
        .filter(|topic| !topic.starts_with('^'))
        .cloned()
        .collect();
    named.iter().try_for_each(|topic| check_topic(topic))?;
    let servers = config.get("bootstrap.servers").unwrap_or_default();
    let health = Health::of("admin client", servers);
    let context = QuietContext(Arc::clone(&health));
    let client: BaseConsumer<QuietContext> = config
        .create_with_context(context)
        .map_err(|error| refused(&error))?;
    let (answer, answered) = oneshot::channel();
    let for_thread = Arc::clone(&health);
    let run = move || {
        let result = ask(&client, &named, limit, &for_thread);
        let _ = answer.send(result);
        // Destroying the client may take seconds with the brokers gone.
        drop(client);
    };
    thread::Builder::new()
        .name("prosody-admin".to_owned())
        .spawn(run)
        .map_err(|error| LogError::Refused(format!("no thread for an admin client: {error}")))?;
    let described = match timeout(limit, answered).await {
        Ok(Ok(result)) => result?,
        _ => return Err(unreachable(limit, &health)),
    };
    in_order(topics, &described)
}

fn ask(
    client: &BaseConsumer<QuietContext>,
    topics: &BTreeSet<String>,
    limit: Duration,
    health: &Health,
) -> Result<Vec<TopicDescription>, LogError> {
    let deadline = deadline(limit.saturating_sub(RESERVE));
    if topics.is_empty() {
        return reach(client, deadline).ok_or_else(|| unreachable(limit, health));
    }
    let serve = || {
        let _ = client.poll(Duration::ZERO);
    };
    let found = describe_on(client, topics, deadline, serve);
    let found = found.map_err(|error| match error {
        Some(error) if !is_timeout(error.code) => LogError::Refused(error.text),
        _ => unreachable(limit, health),
    })?;
    judge(found)
}

/// Waits until a broker has told the cluster's id.
fn reach(client: &BaseConsumer<QuietContext>, deadline: Instant) -> Option<Vec<TopicDescription>> {
    while Instant::now() < deadline {
        // Serves the callbacks, which tell why it does not work.
        let _ = client.poll(Duration::ZERO);
        if client.client().fetch_cluster_id(REPORT_INTERVAL).is_some() {
            return Some(Vec::new());
        }
    }
    None
}

/// Asks the cluster for topics and waits for the answer; `Err(None)` if there is none in time.
///
/// Meanwhile `serve` is called again and again, to poll the client: its callbacks tell what is
/// wrong.
pub(crate) fn describe_on<C: ConsumerContext>(
    client: &BaseConsumer<C>,
    topics: &BTreeSet<String>,
    deadline: Instant,
    mut serve: impl FnMut(),
) -> Result<Vec<DescribedTopic>, Option<NativeError>> {
    let waker = Arc::new(Waker::default());
    waker.adopt_current_thread();
    let names: Vec<CString> = topics
        .iter()
        .filter_map(|topic| CString::new(topic.as_bytes()).ok())
        .collect();
    let replies = Replies::new(client.client(), &waker).ok_or(None)?;
    replies.describe(
        0,
        &names,
        deadline.saturating_duration_since(Instant::now()),
    );
    loop {
        if let Some(Reply::Topics(_, result)) = replies.next() {
            return result.map_err(Some);
        }
        if Instant::now() >= deadline {
            return Err(None);
        }
        Waker::wait(REPORT_INTERVAL);
        serve();
    }
}

/// All topics, or the names of the missing ones.
fn judge(found: Vec<DescribedTopic>) -> Result<Vec<TopicDescription>, LogError> {
    let mut missing = Vec::new();
    let mut described = Vec::new();
    for topic in found {
        match topic.found {
            Ok((id, partitions)) => described.push(TopicDescription {
                name: topic.name.into(),
                id,
                partitions,
            }),
            Err(error) if is_missing(error.code) => missing.push(topic.name),
            Err(error) => {
                let text = format!("topic {}: {}", topic.name, error.text);
                return Err(LogError::Refused(text));
            }
        }
    }
    if missing.is_empty() {
        Ok(described)
    } else {
        Err(LogError::TopicsMissing(missing))
    }
}

/// Descriptions in the order of the question.
fn in_order(
    topics: &[String],
    described: &[TopicDescription],
) -> Result<Vec<TopicDescription>, LogError> {
    let named = topics.iter().filter(|topic| !topic.starts_with('^'));
    let find = |name: &String| {
        let found = described
            .iter()
            .find(|topic| *topic.name == **name)
            .cloned();
        found.ok_or_else(|| LogError::TopicsMissing(vec![name.clone()]))
    };
    named.map(find).collect()
}

/// Whether a topic is not there.
pub(crate) fn is_missing(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::InvalidTopic
    )
}

fn is_timeout(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::OperationTimedOut
            | RDKafkaErrorCode::TimedOutQueue
            | RDKafkaErrorCode::RequestTimedOut
            | RDKafkaErrorCode::BrokerTransportFailure
            | RDKafkaErrorCode::AllBrokersDown
    )
}

fn unreachable(limit: Duration, health: &Health) -> LogError {
    LogError::Unreachable {
        what: "description of topics".to_owned(),
        limit,
        reason: health.reason(),
    }
}
