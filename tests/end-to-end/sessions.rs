//! Administration of sessions and tenants: sessions are listed and ended; tenants are suspended,
//! resumed, removed, and given new passwords.

use std::process::Output;
use std::time::Duration;

use broker::{Credentials, TenantLogin};
use bus_schemas::{Code, Status};
use serde_json::Value;
use test_cluster::TempDir;

use crate::cluster::{administrator, done, objects};
use crate::guest::{Guest, command, finish};
use crate::load::Load;
use crate::loaded::{LoadedCluster, SOON, plan};
use crate::run::{compile, text, warploom};
use crate::swap::{Holder, OVERCOMMITTED};

const MIB: u64 = 1 << 20;
/// Time that a session is requested although none is available.
const BRIEFLY: Duration = Duration::from_secs(2);

/// The only session of a tenant in `session list`.
#[track_caller]
fn only(loaded: &LoadedCluster, tenant: &str) -> Value {
    let mut rows = objects(loaded, &["session", "list", "--tenant", tenant, "--json"]);
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows.remove(0)
}

/// Exit code and output of an administrator's command.
fn said(loaded: &LoadedCluster, arguments: &[&str]) -> (Option<i32>, String) {
    let output = administrator(loaded, arguments);
    let (out, err) = text(&output);
    (output.status.code(), out + &err)
}

#[tokio::test]
async fn a_programs_session_is_listed_with_its_process_and_ends_as_it_is_told() {
    let plans = [plan("guest", "search", 1), plan("other", "search", 1)];
    let loaded = LoadedCluster::idle(1, 1, &plans, &[]).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "swap");
    let start = || Holder::start(&loaded, "guest", dir.path(), &program);
    let (mut one, mut stays) = (start(), start());
    assert_eq!(one.does("take 10 1"), "0");
    assert_eq!(stays.does("take 20 1"), "0");
    let rows = objects(&loaded, &["session", "list", "--json"]);
    assert_eq!(rows.len(), 2, "{rows:?}");
    let of = |pid: u32| {
        let row = rows.iter().find(|row| row["process"]["pid"] == pid);
        row.expect("it is listed").clone()
    };
    let (own, others) = (of(one.pid()), of(stays.pid()));
    assert!(own["held"].as_u64() >= Some(10 * MIB), "{own}");
    assert!(others["held"].as_u64() >= Some(20 * MIB), "{others}");
    let words = ["tenant", "waits_for", "place"].map(|name| own[name].as_str().expect("a word"));
    assert_eq!(words, ["guest", "program", "resident"]);
    assert_eq!(own["process"]["name"], "swap");
    assert_ne!(own["ordinal"], others["ordinal"]);
    assert_eq!(
        (&own["queued"], &own["outstanding_ns"]),
        (&0.into(), &0.into())
    );
    for arguments in [&["--tenant", "other"], &["--gpu", "7"]] {
        let asked = [&["session", "list", "--json"], arguments.as_slice()].concat();
        assert_eq!(done(&loaded, &asked), "");
    }
    let id = own["id"].as_str().expect("an id");
    for command in [&["session", "list"][..], &["session", "show", id]] {
        let shown = done(&loaded, command);
        let (pid, host) = (one.pid().to_string(), own["process"]["host"].as_str());
        for word in [id, "program", &pid, host.expect("a host")] {
            assert!(shown.contains(word), "{word}: {shown}");
        }
    }
    assert_eq!(
        objects(&loaded, &["session", "show", id, "--json"])[0]["id"],
        id
    );
    assert_eq!(
        done(&loaded, &["session", "end", id]),
        format!("session {id} has ended\n")
    );
    for command in ["end", "show"] {
        let (code, why) = said(&loaded, &["session", command, id]);
        assert_eq!(code, Some(1), "{why}");
        assert!(why.starts_with("E-SESSION-UNKNOWN"), "{why}");
    }
    assert_eq!(said(&loaded, &["session", "end", "nonsense"]).0, Some(2));
    assert_eq!(one.may("turn 1 2"), None, "its next call fails");
    assert_eq!(one.0.ends().1, Some(1));
    assert_eq!(stays.does("turn 1 2"), "0", "others go on");
    let rows = objects(&loaded, &["session", "list", "--json"]);
    assert_eq!(rows.len(), 1, "{rows:?}");
    let workers = objects(&loaded, &["worker", "list", "--json"]);
    assert_eq!((workers.len(), &workers[0]["sessions"]), (1, &1.into()));
    assert!(done(&loaded, &["worker", "list"]).contains("live"));
    assert_eq!(stays.0.ends().1, Some(0));
    loaded.replayed().await;
}

/// Number of ops granted to a tenant so far.
fn granted(status: &Status, tenant: &str) -> u64 {
    let mut tenants = status.tenants.iter();
    let own = tenants.find(|it| it.tenant.as_str() == tenant);
    own.expect("it is known").granted
}

/// Checks that a tenant gets no grants while the other has another 50 requests answered.
async fn stands_still(loaded: &LoadedCluster, tenant: &str) {
    let session = only(loaded, tenant);
    assert_eq!(session["waits_for"], "suspended", "{session}");
    let before = granted(&loaded.status().await, tenant);
    let others = loaded.demo.requests(1, 50, SOON).await;
    others.expect("others go on");
    let after = loaded.status().await;
    assert_eq!(granted(&after, tenant), before);
    let own = after.tenants.iter().find(|it| it.tenant.as_str() == tenant);
    assert!(own.expect("it is known").settings.suspended);
}

#[tokio::test]
async fn a_suspended_tenant_stands_still_whoever_leads_and_goes_on_with_right_results() {
    // The first is the foremost: its ops run as they come, under a standing grant.
    let plans = [plan("a", "search", 0), plan("b", "search", 1)];
    let mut loaded = LoadedCluster::start(2, 1, &plans).await;
    loaded.progress(20, SOON).await;
    let told = done(&loaded, &["tenant", "suspend", "a"]);
    assert!(told.contains("is suspended"), "{told}");
    loaded
        .until("what was granted has ended", |status| {
            let mut tenants = status.tenants.iter();
            let own = tenants.find(|it| it.tenant.as_str() == "a");
            own.is_some_and(|own| own.settings.suspended)
        })
        .await;
    loaded
        .demo
        .requests(1, 20, SOON)
        .await
        .expect("others go on");
    stands_still(&loaded, "a").await;
    for command in [&["tenant", "list"][..], &["status"]] {
        let shown = done(&loaded, command);
        assert!(shown.contains("suspended"), "{shown}");
    }
    let listed = objects(&loaded, &["tenant", "list", "--json"]);
    let suspended: Vec<_> = listed.iter().map(|row| &row["suspended"]).collect();
    assert_eq!(suspended, [true, false]);
    let refused = Load::start(&loaded, "a", 1, BRIEFLY).await;
    assert_eq!(refused.err(), Some(Code::Suspended));
    // Suspending twice has no further effect, and other settings may change in the meantime.
    done(&loaded, &["tenant", "suspend", "a"]);
    done(&loaded, &["tenant", "set", "a", "--weight", "3"]);
    let epoch = loaded.replace_leader(0, SOON).await;
    loaded.epoch_above(epoch, SOON).await;
    loaded
        .demo
        .requests(1, 20, SOON)
        .await
        .expect("others go on");
    stands_still(&loaded, "a").await;
    assert_eq!(
        done(&loaded, &["tenant", "resume", "a"]),
        "tenant a goes on\n"
    );
    loaded.progress(50, SOON).await;
    let (_, _, opened) = loaded.join("a").await;
    assert_eq!(opened.gpu, 0, "it gets sessions again");
    for command in ["suspend", "resume", "remove", "renew"] {
        let (code, why) = said(&loaded, &["tenant", command, "nobody"]);
        assert_eq!(code, Some(2), "{why}");
        assert!(why.contains("there is no tenant nobody"), "{why}");
    }
    let (_, replayed) = loaded.replayed().await;
    assert_eq!(replayed.skipped, 0);
}

#[tokio::test]
async fn a_suspended_program_waits_beyond_its_deadline_and_its_memory_makes_room() {
    let plans = [plan("guest", "search", 1), plan("b", "search", 1)];
    let loaded = LoadedCluster::idle(1, 1, &plans, &OVERCOMMITTED).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "swap");
    let mut waits = command(&loaded, "guest", dir.path(), &program);
    let mut waits = Holder(Guest::start(waits.env("WARPLOOM_CLIENT_DEADLINE", "2s")));
    let mut other = Holder::start(&loaded, "b", dir.path(), &program);
    assert_eq!(waits.does("take 40 1"), "0");
    done(&loaded, &["tenant", "suspend", "guest"]);
    waits.tell("work 1 20");
    assert_eq!(other.does("take 40 2"), "0");
    assert_eq!(other.does("turn 2 12"), "0");
    // Longer than any allowed silence; but the leader is not silent.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let own = only(&loaded, "guest");
    assert_eq!(
        (&own["waits_for"], &own["place"]),
        (&"suspended".into(), &"out".into())
    );
    assert!(own["queued"].as_u64() > Some(0), "{own}");
    assert_eq!(other.does("turn 12 22"), "0", "nobody makes it room");
    assert_eq!(only(&loaded, "guest")["place"], "out");
    done(&loaded, &["tenant", "resume", "guest"]);
    assert_eq!(waits.0.says().as_deref(), Some("0"), "every word is right");
    for program in [waits, other] {
        assert_eq!(program.0.ends().1, Some(0));
    }
}

/// A command on the cluster's host, with the right to change the broker's logins.
fn here(loaded: &LoadedCluster, arguments: &[&str]) -> Output {
    let cluster = &loaded.demo.cluster;
    let folder = &cluster.options().state_dir;
    let mut command = warploom(folder);
    command
        .env("WARPLOOM_CLUSTER_STATE_DIR", folder)
        .env("WARPLOOM_CLUSTER_NAME", &cluster.options().cluster);
    finish(command.args(arguments))
}

/// The output of such a command, which must succeed.
#[track_caller]
fn done_here(loaded: &LoadedCluster, arguments: &[&str]) -> String {
    let output = here(loaded, arguments);
    let (out, err) = text(&output);
    assert!(output.status.success(), "{arguments:?}: {out}{err}");
    out
}

/// A tenant's login in the current credentials file.
fn login(loaded: &LoadedCluster, tenant: &str) -> Option<TenantLogin> {
    let credentials = Credentials::load(&loaded.demo.cluster.credentials());
    credentials.expect("credentials").tenant(tenant).cloned()
}

/// The connection that a login opens; `None` if it is refused.
async fn connect(loaded: &LoadedCluster, login: &TenantLogin) -> Option<async_nats::Client> {
    let broker = loaded.demo.cluster.broker.credentials();
    let (user, password) = (login.login.user.clone(), login.login.password.clone());
    let options = async_nats::ConnectOptions::with_user_and_password(user, password)
        .custom_inbox_prefix(broker.tenant_inbox(&login.tenant).expect("a name"));
    options.connect(broker.urls()).await.ok()
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "steps that share state")]
async fn a_new_password_takes_the_place_of_the_old_one_and_a_tenant_is_removed_with_all_but_its_usage()
 {
    let plans = [plan("guest", "search", 1)];
    let settings = [
        ("worker.metering", "100ms"),
        ("leader.connection_lost", "1s"),
    ];
    let loaded = LoadedCluster::idle(1, 1, &plans, &settings).await;
    done_here(&loaded, &["tenant", "create", "late", "--priority", "1"]);
    let old = login(&loaded, "late").expect("a login");
    let connected = connect(&loaded, &old).await.expect("it opens");
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "swap");
    let mut runs = Holder::start(&loaded, "late", dir.path(), &program);
    assert_eq!(runs.does("take 10 1"), "0");
    assert_eq!(only(&loaded, "late")["process"]["pid"], runs.pid());
    let said = done_here(&loaded, &["tenant", "renew", "late"]);
    let new = login(&loaded, "late").expect("a login");
    assert_ne!(old.login.password, new.login.password);
    let credentials = loaded.demo.cluster.credentials().display().to_string();
    assert!(
        said.contains(&credentials) && !said.contains(&new.login.password),
        "{said}"
    );
    assert!(
        connect(&loaded, &old).await.is_none(),
        "the old one is refused"
    );
    assert!(connect(&loaded, &new).await.is_some());
    let gone = loaded.wait("it is disconnected", SOON, |_| {
        let state = connected.connection_state();
        (state != async_nats::connection::State::Connected).then_some(())
    });
    gone.await;
    let sessions = ["session", "list", "--tenant", "late", "--json"];
    loaded
        .wait("its session has ended", SOON, |loaded| {
            objects(loaded, &sessions).is_empty().then_some(())
        })
        .await;
    drop(runs);
    // From elsewhere, logins cannot be changed.
    let (code, why) = self::said(&loaded, &["tenant", "renew", "late"]);
    assert_eq!(code, Some(1), "{why}");
    assert!(why.starts_with("E-TENANT-LOGIN"), "{why}");
    // A tenant without sessions is removed at once.
    let told = done_here(&loaded, &["tenant", "remove", "late"]);
    assert_eq!(told, "tenant late is removed, and so is its login\n");
    assert!(login(&loaded, "late").is_none());
    assert!(connect(&loaded, &new).await.is_none(), "it is refused");
    // A tenant with sessions is not.
    let mut holder = Holder::start(&loaded, "guest", dir.path(), &program);
    assert_eq!(holder.does("take 10 1"), "0");
    let refused = here(&loaded, &["tenant", "remove", "guest"]);
    assert_eq!(refused.status.code(), Some(1), "{:?}", text(&refused));
    assert!(
        text(&refused).1.starts_with("E-TENANT-BUSY"),
        "{:?}",
        text(&refused)
    );
    assert_eq!(holder.does("turn 1 2"), "0", "it goes on");
    // In the middle of its work.
    holder.tell("work 2 1000000");
    let told = done_here(&loaded, &["tenant", "remove", "guest", "--force", "--json"]);
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!((&told["ended"], &told["login"]), (&1.into(), &true.into()));
    assert_eq!(holder.0.says(), None, "its session is gone");
    assert_ne!(holder.0.ends().1, Some(0));
    assert_eq!(done(&loaded, &["session", "list", "--json"]), "");
    assert_eq!(done(&loaded, &["tenant", "list", "--json"]), "");
    let again = here(&loaded, &["tenant", "remove", "guest"]);
    assert_eq!(again.status.code(), Some(2), "{:?}", text(&again));
    // Its usage is still known.
    let used = |rows: &[Value]| {
        let mut rows = rows.iter();
        rows.any(|row| row["tenant"] == "guest" && row["launches"].as_u64() > Some(0))
    };
    let usage = ["usage", "--json", "--by", "tenant"];
    loaded
        .wait("its usage", SOON, |loaded| {
            used(&objects(loaded, &usage)).then_some(())
        })
        .await;
}
