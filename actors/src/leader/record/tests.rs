use futures_util::{StreamExt as _, TryStreamExt as _};
use scheduler_leader_core::replay::Anchor;
use test_cluster::TestBroker;

use super::*;
use crate::testing::connect;

#[test]
fn a_block_that_was_not_heard_is_asked_for() {
    actix::System::new().block_on(missing_block());
}

async fn missing_block() {
    let broker = TestBroker::start();
    let subjects = Subjects::new(&"test".parse().expect("a name"));
    let client = connect(&broker, &subjects).await;
    let mut asks = client
        .subscribe(subjects.unstored_ask())
        .await
        .expect("it hears");
    client.flush().await.expect("flushed");
    let jetstream = async_nats::jetstream::new(connect(&broker, &subjects).await);
    let storage = Storage::new(jetstream, &subjects);
    let [leading, standing_by] = [1, 2].map(|id| Appender::new(&storage, &subjects, LeaderId(id)));
    let send = |number| {
        let copy = leading.copy((1, LeaderId(1)), number, b"block");
        standing_by.receive(&copy.into()).expect("it is read");
    };
    send(1);
    send(3);
    send(4);
    let mut asked = async || {
        let patience = Duration::from_millis(500);
        tokio::time::timeout(patience, asks.next()).await.is_ok()
    };
    assert!(asked().await, "the second is missing");
    assert!(!asked().await, "it is asked for once");
    send(5);
    assert!(!asked().await, "nothing more is missing");
    send(7);
    assert!(asked().await, "the sixth is missing as well");
    send(2);
    send(6);
    send(8);
    assert!(!asked().await, "nothing is missing");
}

#[tokio::test]
async fn an_epoch_that_cannot_be_read_is_not_zero() {
    let mut broker = TestBroker::start();
    let subjects = Subjects::new(&"test".parse().expect("a name"));
    let client = connect(&broker, &subjects).await;
    let mut jetstream = async_nats::jetstream::new(client);
    jetstream.set_timeout(Duration::from_millis(500));
    let storage = Storage::new(jetstream, &subjects);
    let last = async || Appender::last_epoch(&storage, &subjects).await;
    assert_eq!(last().await, Ok(0), "no stream");
    storage.ensure().await.expect("they are made");
    assert_eq!(last().await, Ok(0), "an empty stream");
    // An old epoch, and more anchors after it than the search looks back.
    for epoch in [7, 9].into_iter().chain([Anchor::EPOCH; 40]) {
        let sent = storage
            .jetstream()
            .publish(subjects.record(epoch), "".into());
        sent.await.expect("sent").await.expect("stored");
    }
    assert_eq!(last().await, Ok(9));
    for server in broker.servers_mut() {
        server.pause().expect("it stands still");
    }
    assert!(last().await.is_err(), "nobody answers");
    for server in broker.servers_mut() {
        server.resume().expect("it goes on");
    }
    assert_eq!(last().await, Ok(9));
}

/// A stream for the record that rejects every message.
async fn full(storage: &Storage) {
    let config = async_nats::jetstream::stream::Config {
        name: storage.name(Stored::Record),
        subjects: vec![storage_subject()],
        max_messages: 0,
        max_bytes: 1,
        discard: async_nats::jetstream::stream::DiscardPolicy::New,
        ..Default::default()
    };
    let made = storage.jetstream().create_stream(config).await;
    made.expect("it is made");
}

fn subjects() -> Subjects {
    Subjects::new(&"test".parse().expect("a name"))
}

fn storage_subject() -> String {
    subjects().record_all()
}

/// Epochs and numbers of the received blocks, until none arrives.
async fn numbers(copies: &mut async_nats::Subscriber) -> Vec<(Epoch, u64)> {
    let mut numbers = Vec::new();
    let patience = Duration::from_millis(800);
    while let Ok(Some(message)) = tokio::time::timeout(patience, copies.next()).await {
        let copy: bus_schemas::UnstoredCopy<'_> =
            bus_schemas::decode(&message.payload).expect("a copy");
        numbers.push((copy.epoch, copy.number));
    }
    numbers
}

/// Appends the first block of the given epoch.
fn append_first(leading: &Appender, epoch: Epoch) {
    let block = UnstoredBlock {
        term: (epoch, leading.leader),
        number: 1,
        bytes: "block".into(),
    };
    leading.unstored.borrow_mut().append(&block);
    leading.start(block, None);
}

#[test]
fn what_is_not_stored_for_long_is_with_workers_and_said_again_when_the_term_ends() {
    actix::System::new().block_on(not_stored());
}

async fn not_stored() {
    let (broker, subjects) = (TestBroker::start(), subjects());
    let client = connect(&broker, &subjects).await;
    let [mut lent, mut published] = [
        client
            .subscribe(subjects.unstored_worker())
            .await
            .expect("it hears"),
        client
            .subscribe(subjects.unstored())
            .await
            .expect("it hears"),
    ];
    client.flush().await.expect("flushed");
    let jetstream = async_nats::jetstream::new(connect(&broker, &subjects).await);
    let storage = Storage::new(jetstream, &subjects);
    full(&storage).await;
    let leading = Appender::new(&storage, &subjects, LeaderId(1));
    leading.begin(3);
    append_first(&leading, 3);
    assert_eq!(numbers(&mut lent).await, [(3, 1)]);
    assert_eq!(numbers(&mut published).await, [(3, 1)]);
    leading.give_up();
    assert_eq!(
        numbers(&mut published).await,
        [(3, 1)],
        "whoever leads next hears it"
    );
}

#[test]
fn what_a_leader_of_before_says_late_is_stored() {
    actix::System::new().block_on(said_late());
}

async fn said_late() {
    let (broker, subjects) = (TestBroker::start(), subjects());
    let client = connect(&broker, &subjects).await;
    let mut lent = client
        .subscribe(subjects.unstored_worker())
        .await
        .expect("it hears");
    client.flush().await.expect("flushed");
    let storage = Storage::new(async_nats::jetstream::new(client), &subjects);
    storage.ensure().await.expect("they are made");
    let [cut_off, leading] = [1, 2].map(|id| Appender::new(&storage, &subjects, LeaderId(id)));
    leading.begin(4);
    append_first(&leading, 4);
    while leading.unstored.borrow().stored_through((4, LeaderId(2))) < 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for number in [1, 2] {
        let copy = cut_off.copy((3, LeaderId(1)), number, b"late");
        leading.receive(&copy.into()).expect("it is read");
    }
    while leading.unstored.borrow().stored_through((3, LeaderId(1))) < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let stream = storage.find_stream(Stored::Record).await;
    let stream = stream.expect("it is asked").expect("it is there");
    let kept = stream.info_with_subjects(subjects.record_all()).await;
    let mut kept: Vec<_> = kept.expect("listed").try_collect().await.expect("listed");
    kept.sort();
    let of = |epoch, count| (subjects.record(epoch), count);
    assert_eq!(kept, [of(3, 2), of(4, 1)]);
    assert_eq!(numbers(&mut lent).await, [], "storing takes no time");
}
