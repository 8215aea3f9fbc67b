//! Users' mistakes: each is a clear error to its sender, and no other tenant notices.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use bus_schemas::{Code, OpenAnswer, Rejected, decode};
use futures_util::StreamExt;

use crate::loaded::{LoadedCluster, plan};

const SOON: Duration = Duration::from_secs(60);

const KERNELS: &str = "
.version 7.0
.target sm_75
.address_size 64
.visible .entry store(.param .u64 to, .param .u32 value)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [to];
    ld.param.u32 %r1, [value];
    st.global.u32 [%rd1], %r1;
    ret;
}
.visible .entry store_odd(.param .u64 to)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [to];
    add.s64 %rd1, %rd1, 2;
    mov.u32 %r1, 7;
    st.global.u32 [%rd1], %r1;
    ret;
}
.visible .entry forever()
{
loop:
    bra loop;
}
.visible .entry trapped()
{
    trap;
}
";

struct Bench {
    loaded: LoadedCluster,
    ptx: std::path::PathBuf,
}

impl Bench {
    fn warploom(&self, arguments: &[&str]) -> Output {
        let credentials = self.loaded.demo.cluster.credentials();
        std::process::Command::new(env!("CARGO_BIN_EXE_warploom"))
            .args(arguments)
            .env("WARPLOOM_BROKER_CREDENTIALS", credentials)
            .env("WARPLOOM_CLUSTER_NAME", "test")
            .output()
            .expect("the binary runs")
    }

    /// Runs `warploom submit` with the kernels above; returns its exit code and its output.
    fn submit(&self, ptx: &Path, rest: &str) -> (i32, String) {
        let ptx = ptx.display().to_string();
        let mut arguments = vec!["submit", "--tenant", "guest", &ptx];
        arguments.extend(rest.split_whitespace());
        let output = self.warploom(&arguments);
        let said = [output.stdout, output.stderr].concat();
        (
            output.status.code().unwrap_or(-1),
            String::from_utf8_lossy(&said).into_owned(),
        )
    }

    fn expect(&self, rest: &str, says: &[&str]) {
        let (code, said) = self.submit(&self.ptx, rest);
        let told = says.iter().all(|text| said.contains(text));
        assert!(
            code != 0 && told,
            "submit {rest}: exit {code}, expected {says:?}: {said}"
        );
    }
}

async fn start() -> Bench {
    start_with(64 << 20, &[]).await
}

/// A busy tenant, and a guest with this quota.
async fn start_with(quota: u64, settings: &[(&str, &str)]) -> Bench {
    let plans = [plan("busy", "search", 2)];
    let mut guest = plan("guest", "search", 1);
    guest.settings.quota = quota;
    let mut loaded = LoadedCluster::start_with(1, 1, &plans, settings).await;
    loaded.guest("guest", &guest.settings).await;
    let ptx = loaded.demo.cluster.options().state_dir.join("kernels.ptx");
    std::fs::write(&ptx, KERNELS).expect("written");
    Bench { loaded, ptx }
}

/// Checks that the busy tenant has had only verified answers, and still gets them.
async fn nobody_noticed(bench: Bench) {
    bench.loaded.progress(3, SOON).await;
    bench.loaded.settle().await;
}

#[tokio::test]
async fn programs() {
    let bench = start().await;
    let (code, said) = bench.submit(&bench.ptx, "store --arg u32*1=1 --arg u32:77");
    assert!(
        code == 0 && said.contains("77"),
        "the good case: exit {code}: {said}"
    );
    let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/runtime.ptx");
    let (code, said) = bench.submit(&runtime, "runtime_printed --arg u32*2=9");
    let printed = said.starts_with("plain\n1 two\n") && said.contains("0 2");
    assert!(code == 0 && printed, "exit {code}: {said}");
    let (code, said) = bench.submit(&runtime, "runtime_printed --arg u64:0");
    let told = said.starts_with("plain\n") && said.contains("E-KERNEL-ADDRESS");
    assert!(code != 0 && told, "exit {code}: {said}");
    let (code, said) = bench.submit(&runtime, "runtime_assert --arg u32:0");
    let told = said.contains("E-KERNEL-ASSERT") && said.contains("runtime.cu:53");
    assert!(code != 0 && told, "exit {code}: {said}");
    bench.expect("nowhere --arg u32:1", &["E-MODULE-FUNCTION", "nowhere"]);
    bench.expect("store --arg u32*1=1", &["E-LAUNCH-INVALID"]);
    bench.expect(
        "store --arg u32*1=1 --arg u64:1 --arg u8:1",
        &["E-LAUNCH-INVALID"],
    );
    bench.expect("store --grid 0 --arg u32*1=1 --arg u32:1", &["E-LAUNCH-"]);
    bench.expect(
        "store --block 2000 --arg u32*1=1 --arg u32:1",
        &["E-LAUNCH-"],
    );
    bench.expect(
        "store --grid 1,70000 --arg u32*1=1 --arg u32:1",
        &["E-LAUNCH-"],
    );
    bench.expect(
        "store --shared 9000000 --arg u32*1=1 --arg u32:1",
        &["E-LAUNCH-"],
    );
    bench.expect(
        "store --arg u64:4096 --arg u32:1",
        &["E-KERNEL-ADDRESS", "store"],
    );
    bench.expect(
        "store_odd --arg u32*4=1",
        &["E-KERNEL-MISALIGNED", "store_odd", "line 21"],
    );
    bench.expect("trapped", &["E-KERNEL-TRAP", "trapped"]);
    bench.expect("store --arg u8*80000000=1 --arg u32:1", &["E-MEMORY-QUOTA"]);
    let broken = bench.ptx.with_file_name("broken.ptx");
    std::fs::write(&broken, KERNELS.replace("st.global.u32", "st.global.q32")).expect("written");
    let (code, said) = bench.submit(&broken, "store --arg u32*1=1 --arg u32:1");
    assert!(code != 0, "{said}");
    assert!(
        said.contains("E-MODULE-PTX") && said.contains("line 11"),
        "{said}"
    );
    nobody_noticed(bench).await;
}

#[tokio::test]
async fn more_memory_than_the_device_has() {
    let bench = start_with(0, &[("worker.capacity", "32MiB")]).await;
    // Below the quota, which is the device's capacity, but above the memory that the busy tenant
    // leaves free.
    bench.expect(
        "store --arg u8*33500000=1 --arg u32:1",
        &["E-MEMORY-CAPACITY"],
    );
    let out = bench.ptx.with_file_name("out");
    let out = out.display();
    let (code, said) = bench.submit(
        &bench.ptx,
        &format!("store --arg u8*20000000=1 --arg u32:1 --out 0:{out}"),
    );
    assert_eq!(code, 0, "what fits is given: {said}");
    nobody_noticed(bench).await;
}

#[tokio::test]
async fn tenants_and_watchdog() {
    let bench = start().await;
    let output = bench.warploom(&["submit", "--tenant", "nobody", "x.ptx", "y"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    let ptx = bench.ptx.display().to_string();
    let output = bench.warploom(&["submit", "--tenant", "nobody", &ptx, "trapped"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // Only the broker's owner can create a login, and this command does not own the broker.
    assert!(said.contains("no login of tenant nobody"), "{said}");
    bench.loaded.progress(1, SOON).await;
    bench.expect("forever", &["E-KERNEL-WATCHDOG", "forever"]);
    nobody_noticed(bench).await;
}

/// Deterministic noise.
fn noise(seed: &mut u64, len: usize) -> Vec<u8> {
    (0..len)
        .map(|_| {
            *seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (*seed >> 56) as u8
        })
        .collect()
}

const NEWER: &[u8] = &[0x91, 0xcd, 0xff, 0xff];
const NEWER_MAP: &[u8] = &[0x81, 0xa1, b'v', 0xcd, 0xff, 0xff];

async fn throw_garbage(client: &async_nats::Client, root: &str, subjects: &[String]) {
    let mut seed = 9;
    for subject in subjects {
        let noises = [0, 1, 7, 100, 4_000].map(|len| noise(&mut seed, len));
        for bytes in noises
            .into_iter()
            .chain([NEWER.to_vec(), NEWER_MAP.to_vec()])
        {
            client
                .publish(format!("{root}{subject}"), bytes.into())
                .await
                .expect("published");
        }
    }
    client.flush().await.expect("flushed");
}

#[tokio::test]
async fn garbage_on_every_subject() {
    let bench = start().await;
    let loaded = &bench.loaded;
    let (client, names, opened) = loaded.join("guest").await;
    let (worker, session) = (opened.incarnation, opened.session);
    let root = names.all();
    let root = root.trim_end_matches('>');
    let errors = format!("{root}t.guest.dn.{session}.error");
    let mut errors = client.subscribe(errors).await.expect("subscribed");
    let nobody = "0".repeat(16);
    let says = [
        "open".to_owned(),
        "close".to_owned(),
        "alive".to_owned(),
        format!("intent.{session}"),
        format!("intent.{nobody}"),
        "intent.x".to_owned(),
        "nothing".to_owned(),
    ];
    let mut as_guest: Vec<_> = says
        .iter()
        .map(|what| format!("t.guest.up.l.{what}"))
        .collect();
    for (session, what) in [
        (session.to_string(), "batch"),
        (session.to_string(), "data"),
        (session.to_string(), "state"),
        (session.to_string(), "nothing"),
        (nobody, "batch"),
        ("x".into(), "batch"),
    ] {
        as_guest.push(format!("t.guest.up.w.{worker}.{session}.{what}"));
    }
    throw_garbage(&client, root, &as_guest).await;
    let told = tokio::time::timeout(SOON, errors.next())
        .await
        .expect("an error")
        .expect("it");
    let told: Rejected = decode(&told.payload).expect("a rejection");
    let code = told.failure.code;
    assert!(
        matches!(code, Code::Malformed | Code::Version),
        "{}",
        told.failure
    );
    // A client with the cluster's own login can publish anything; that breaks nothing either.
    let busy = loaded.demo.tenants[0].session().expect("it is at work");
    let as_cluster = [
        format!("t.busy.dn.{busy}.worker"),
        format!("t.busy.dn.{busy}.result"),
        format!("t.busy.dn.{busy}.leader"),
        "t.busy.dn.reign".to_owned(),
        format!("s.l.done.{worker}"),
        format!("s.l.worker.{worker}"),
        format!("s.l.refusal.{worker}"),
        format!("s.l.measured.{worker}"),
        "s.l.beat".to_owned(),
        format!("s.w.{worker}.order"),
        format!("s.w.{worker}.seal"),
        "s.lost".to_owned(),
        "s.ctl.status".to_owned(),
        "s.ctl.hold".to_owned(),
        "s.ctl.kill".to_owned(),
    ];
    throw_garbage(loaded.demo.administrator.client(), root, &as_cluster).await;
    a_newer_request(&client, root).await;
    an_answer_goes_to_whoever_asked(&bench, &client, root).await;
    drop(client);
    nobody_noticed(bench).await;
}

/// A request of a newer version gets an answer that names the version.
async fn a_newer_request(client: &async_nats::Client, root: &str) {
    let open = format!("{root}t.guest.up.l.open");
    let answer = client
        .request(open, NEWER_MAP.to_vec().into())
        .await
        .expect("an answer");
    let answer: OpenAnswer = decode(&answer.payload).expect("an open answer");
    let failure = answer.failure.expect("a failure");
    assert_eq!(failure.code, Code::Version, "{failure}");
}

/// The broker does not check reply subjects. The leader must not be tricked into publishing to
/// another tenant.
async fn an_answer_goes_to_whoever_asked(bench: &Bench, client: &async_nats::Client, root: &str) {
    let administrator = bench.loaded.demo.administrator.client();
    let theirs = format!("{root}t.busy.dn.inbox.theirs");
    let mut heard = administrator
        .subscribe(theirs.clone())
        .await
        .expect("subscribed");
    administrator.flush().await.expect("flushed");
    let open = format!("{root}t.guest.up.l.open");
    let published = client
        .publish_with_reply(open, theirs, NEWER_MAP.to_vec().into())
        .await;
    published.expect("the broker takes it");
    client.flush().await.expect("flushed");
    let silence = tokio::time::timeout(Duration::from_millis(500), heard.next()).await;
    assert!(silence.is_err(), "a tenant had an answer sent to another");
}
