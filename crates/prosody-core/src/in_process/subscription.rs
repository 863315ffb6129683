//! What a member of a group wants to consume.

use std::collections::BTreeSet;
use std::sync::Arc;

use regex_lite::Regex;

use super::topic::name_fault;
use crate::log::LogError;

/// The topics that a member consumes.
pub(super) struct Subscription {
    names: BTreeSet<Arc<str>>,
    patterns: Vec<Regex>,
}

impl Subscription {
    pub(super) fn new(topics: &[String]) -> Result<Self, LogError> {
        let mut names = BTreeSet::new();
        let mut patterns = Vec::new();
        for topic in topics {
            if topic.starts_with('^') {
                let pattern = Regex::new(topic).map_err(|error| {
                    LogError::Refused(format!("topic pattern {topic:?} is not valid: {error}"))
                })?;
                patterns.push(pattern);
            } else if let Some(fault) = name_fault(topic) {
                return Err(LogError::Refused(fault));
            } else {
                names.insert(Arc::from(topic.as_str()));
            }
        }
        Ok(Self { names, patterns })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.names.iter()
    }

    pub(super) fn includes(&self, topic: &str) -> bool {
        self.names.contains(topic) || self.patterns.iter().any(|pattern| pattern.is_match(topic))
    }
}
