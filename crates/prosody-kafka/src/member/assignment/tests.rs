//! What becomes of partitions and of their records.

use super::*;

const ID: TopicId = TopicId(1);

fn partition(topic: &str, number: i32) -> TopicPartition {
    TopicPartition::new(topic, number)
}

fn describe(assignment: &mut Assignment, topic: &str) -> Vec<Assigned> {
    let ready = |one: &TopicPartition| (&*one.topic == topic).then_some((ID, 4));
    let ready = assignment.take_ready(ready);
    let ready = ready
        .into_iter()
        .map(|(one, id, count)| (one.topic_partition, id, count));
    assignment.begin(ready, Instant::now())
}

fn assignment(partitions: &[TopicPartition]) -> Assignment {
    let mut assignment = Assignment::new();
    assignment.add(partitions.to_vec());
    assert_eq!(describe(&mut assignment, "a").len(), partitions.len());
    assignment
}

fn generation(assignment: &mut Assignment, topic: &str, number: i32) -> Option<u64> {
    let route = assignment.route(topic, number);
    route.map(|route| route.generation.0)
}

fn arrive(assignment: &mut Assignment, number: i32, offset: i64, now: Instant) -> &'static str {
    match assignment.arrive("a", number, offset, now) {
        Arrival::Record(_) => "record",
        Arrival::Doubtful(_) => "doubtful",
        Arrival::Back(_) => "back",
        Arrival::Strange => "strange",
    }
}

#[test]
fn a_partition_is_ours_when_its_topic_is_described() {
    let mut assignment = Assignment::new();
    assignment.add(vec![partition("a", 0), partition("b", 0)]);
    assert_eq!(generation(&mut assignment, "a", 0), None);
    assert_eq!(describe(&mut assignment, "a").len(), 1);
    assert_eq!(describe(&mut assignment, "a").len(), 0);
    assert_eq!(describe(&mut assignment, "b").len(), 1);
    assert_eq!(generation(&mut assignment, "a", 0), Some(1));
    assert_eq!(generation(&mut assignment, "b", 0), Some(2));
    assert_eq!(generation(&mut assignment, "a", 1), None);
}

#[test]
fn what_is_revoked_before_it_is_described_never_comes() {
    let mut assignment = Assignment::new();
    assignment.add(vec![partition("a", 0), partition("a", 1)]);
    let (owned, restarting) = assignment.owned_of(vec![partition("a", 0)]);
    assert!(owned.is_empty() && restarting.is_empty());
    let assigned = describe(&mut assignment, "a");
    assert_eq!(assigned.len(), 1);
    assert_eq!(assigned[0].topic_partition, partition("a", 1));
}

#[test]
fn a_revocation_ends_when_all_of_it_is_given_up() {
    let both = vec![partition("a", 0), partition("a", 1)];
    let mut assignment = assignment(&both);
    assert_eq!(assignment.give_up(&both), None);
    assignment.revoke(&both, vec![partition("a", 2)]);
    assert_eq!(generation(&mut assignment, "a", 0), None);
    assert_eq!(assignment.give_up(&both[..1]), None);
    let all = assignment.give_up(&both[1..]);
    assert_eq!(all.map(|all| all.len()), Some(3));
    assignment.remove(&both);
    assert!(assignment.owned_of(both).0.is_empty());
}

#[test]
fn what_is_begun_afresh_is_the_callers_no_more_and_librdkafkas_still() {
    let both = vec![partition("a", 0), partition("a", 1)];
    let mut assignment = assignment(&both);
    assert!(!assignment.restart(&both[0], Generation(9), None));
    assert!(assignment.restart(&both[0], Generation(1), Some(7)));
    assert!(!assignment.restart(&both[0], Generation(1), Some(7)));
    assert_eq!(arrive(&mut assignment, 0, 1, Instant::now()), "strange");
    assert_eq!(describe(&mut assignment, "a")[0].generation, Generation(2));

    assert!(assignment.restart(&both[0], Generation(2), None));
    let (owned, restarting) = assignment.owned_of(both.clone());
    assert_eq!((&owned[..], &restarting[..]), (&both[1..], &both[..1]));
    assignment.revoke(&owned, restarting);
    assert!(
        !assignment.restart(&both[1], Generation(1), None),
        "revoked"
    );
    assert!(describe(&mut assignment, "a").is_empty());
}

#[test]
fn offsets_ascend_within_an_assignment() {
    let both = vec![partition("a", 0), partition("a", 1)];
    let mut assignment = assignment(&both);
    let now = Instant::now();
    for (number, offset, what) in [
        (0, 5, "record"),
        (0, 8, "record"),
        (1, 0, "record"),
        (0, 8, "back"),
        (0, 9, "record"),
        (1, 0, "back"),
        (7, 0, "strange"),
    ] {
        assert_eq!(
            arrive(&mut assignment, number, offset, now),
            what,
            "{number} {offset}"
        );
    }
}

#[test]
fn what_is_asked_for_again_is_no_log_that_went_back() {
    let mut assignment = assignment(&[partition("a", 0)]);
    let now = Instant::now();
    assert_eq!(arrive(&mut assignment, 0, 9, now), "record");
    assert!(!assignment.rewind(&partition("a", 0), Generation(7), 5));
    assert_eq!(arrive(&mut assignment, 0, 5, now), "back");
    assert!(assignment.rewind(&partition("a", 0), Generation(1), 5));
    assert_eq!(arrive(&mut assignment, 0, 4, now), "back");
    assert_eq!(arrive(&mut assignment, 0, 5, now), "record");
    assert_eq!(arrive(&mut assignment, 0, 5, now), "back");
}

#[test]
fn a_record_after_a_while_is_doubtful_until_the_topic_is_known() {
    let mut assignment = assignment(&[partition("a", 0), partition("a", 1)]);
    let begun = Instant::now();
    let later = |quiets: u32| begun + (QUIET_MAX + Duration::from_millis(1)) * quiets;
    assert_eq!(arrive(&mut assignment, 0, 0, begun), "record");
    assert_eq!(arrive(&mut assignment, 0, 1, later(1)), "doubtful");
    assert_eq!(arrive(&mut assignment, 0, 2, later(1)), "doubtful");
    assignment.known("a", TopicId(7), later(1));
    assert_eq!(arrive(&mut assignment, 0, 3, later(1)), "doubtful");
    assignment.known("a", ID, later(1));
    assert_eq!(arrive(&mut assignment, 0, 4, later(1)), "record");
    assert_eq!(
        arrive(&mut assignment, 0, 5, later(1) + QUIET_MAX),
        "record"
    );
    assert_eq!(arrive(&mut assignment, 0, 6, later(2)), "record");
    let known_till = later(1) + QUIET_MAX;
    assert_eq!(arrive(&mut assignment, 1, 0, known_till), "record");
    assert_eq!(arrive(&mut assignment, 1, 1, later(4)), "doubtful");
}

#[test]
fn a_topic_that_grows_is_told_once_and_one_made_anew_is_not_the_same() {
    let mut assignment = assignment(&[partition("a", 0)]);
    assert_eq!(assignment.describe("a", ID, 4), None);
    let added = PartitionsAdded {
        topic: "a".into(),
        before: 4,
        now: 6,
    };
    let grown = assignment.describe("a", ID, 6);
    assert_eq!(grown, Some(Change::Grown(added)));
    assert_eq!(assignment.describe("a", ID, 6), None);
    let anew = assignment.describe("a", TopicId(2), 9);
    assert_eq!(anew, Some(Change::MadeAnew(ID)));
    // The next client knows what was before, until the topic is begun.
    let mut assignment = assignment.of_next_client();
    assert_eq!(assignment.describe("a", TopicId(2), 9), None);
    assignment.add(vec![partition("a", 0)]);
    let former = |assignment: &mut Assignment| {
        let ready = assignment.take_ready(|_| Some((TopicId(2), 9)));
        ready[0].0.former
    };
    let known = former(&mut assignment);
    assert_eq!(known.map(|former| former.topic_id), Some(ID));
    assignment.begin([(partition("a", 0), TopicId(2), 9)], Instant::now());
    assignment.add(vec![partition("a", 1)]);
    assert_eq!(former(&mut assignment), None);
}

#[test]
fn a_pause_is_of_one_assignment() {
    let this = partition("a", 0);
    let mut assignment = assignment(std::slice::from_ref(&this));
    let of = |generation| vec![(this.clone(), Generation(generation))];
    assert_eq!(assignment.set_paused(of(1), true).len(), 1);
    assert!(assignment.restart(&this, Generation(1), None));
    describe(&mut assignment, "a");
    assert!(assignment.set_paused(of(1), true).is_empty(), "too late");
    assert_eq!(assignment.unpaused(), std::slice::from_ref(&this));
    assert_eq!(assignment.set_paused(of(2), true).len(), 1);
    assert!(assignment.unpaused().is_empty());
}
