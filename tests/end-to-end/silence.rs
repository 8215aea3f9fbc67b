//! A broker that accepts a connection and then does not answer: its data is unknown, which differs
//! from having none.

use std::time::Duration;

use admin::Administrator;
use admin::record;
use admin::usage::Query;
use test_cluster::TestBroker;
use warploom_cli::exit;

async fn administrator(broker: &TestBroker) -> Administrator {
    let connected = Administrator::patient(broker.credentials(), Duration::from_millis(500)).await;
    connected.expect("it answers")
}

#[tokio::test]
async fn what_is_not_there_is_nothing() {
    let broker = TestBroker::start();
    let administrator = administrator(&broker).await;
    let books = administrator.books(Query::default()).await;
    assert!(books.expect("no worker was ever there").rows.is_empty());
    let records = administrator.kernel_records().await;
    assert!(records.expect("no kernel was ever measured").is_empty());
    let versions = administrator.profile_versions().await;
    assert_eq!(versions.expect("nothing was learned"), []);
    let error = record::stream_blocks(&administrator).await;
    let error = error.expect_err("nobody ever led");
    assert_eq!(exit::code(&error), exit::FAILED, "{error:#}");
    assert!(format!("{error:#}").contains("E-REPLAY: there is no record stream"));
}

#[tokio::test]
async fn what_nobody_answers_is_not_nothing() {
    let mut broker = TestBroker::start();
    let administrator = administrator(&broker).await;
    for server in broker.servers_mut() {
        server.pause().expect("it stands still");
    }
    let books = administrator.books(Query::default()).await.map(|_| ());
    let records = administrator.kernel_records().await.map(|_| ());
    let versions = administrator.profile_versions().await.map(|_| ());
    let blocks = record::stream_blocks(&administrator).await.map(|_| ());
    for server in broker.servers_mut() {
        server.resume().expect("it goes on");
    }
    let asked = [
        ("the usage blocks", books),
        ("kernels", records),
        ("profiles", versions),
        ("the record", blocks),
    ];
    for (what, answer) in asked {
        let error = answer.expect_err(what);
        assert_eq!(exit::code(&error), exit::UNREACHABLE, "{what}: {error:#}");
        let text = format!("{error:#}");
        assert!(text.starts_with("E-CLUSTER-UNREACHABLE"), "{what}: {text}");
    }
}
