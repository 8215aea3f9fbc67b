//! The last release beside this build. Roles and programs of both form one cluster, and are
//! replaced one by one under load. This build serves, replays and verifies the data that the last
//! release wrote.

mod build;

use std::path::{Path, PathBuf};
use std::time::Duration;

use lab::demo::TenantPlan;
use rustix::process::Signal;
use serde_json::Value;
use test_cluster::TempDir;

use crate::children::{Running, until};
use crate::cluster::done;
use crate::loaded::{LoadedCluster, plan};
use crate::run::{WARPLOOM, text, warploom_of};

const SOON: Duration = Duration::from_secs(60);

/// A cluster with processes that change their build while programs are at work.
struct Mixed {
    loaded: LoadedCluster,
    plans: Vec<TenantPlan>,
}

impl Mixed {
    /// Two candidates, two workers and a program of each tenant, all of one build.
    async fn start(binary: &Path) -> Self {
        let plans = vec![
            // All with the same priority: a worker has all of them while the other is replaced.
            plan("chat", "chat", 2),
            plan("search", "search", 2),
            plan("train", "train", 2),
        ];
        let loaded =
            LoadedCluster::made(2, 2, &plans, |options| options.binary = binary.to_owned()).await;
        let mut mixed = Self { loaded, plans };
        mixed.add_programs().await;
        mixed
    }

    /// Adds a program for each tenant, of the current binary's build.
    async fn add_programs(&mut self) {
        let demo = &mut self.loaded.demo;
        let before = demo.tenants.len();
        for plan in &self.plans {
            demo.add_tenant(plan, 3).expect("a tenant");
        }
        demo.ready().await.expect("they are ready");
        for program in &mut demo.tenants[before..] {
            program.go().expect("it begins");
        }
        self.loaded.progress(2, SOON).await;
    }

    /// Replaces each candidate by one of the current binary's build: the first is asked to leave,
    /// the second is killed.
    async fn replace_leaders(&mut self) {
        let before = self.loaded.epoch_above(0, SOON).await;
        let replaced = self.loaded.demo.cluster.leaders.len();
        for index in replaced - 2..replaced {
            let cluster = &mut self.loaded.demo.cluster;
            cluster.start_leader().expect("a candidate");
            let (_, leaves) = &mut cluster.leaders[index];
            match index % 2 {
                0 => leaves.stop(SOON).expect("it hands over"),
                _ => leaves.kill().expect("it dies"),
            }
            self.loaded.progress(2, SOON).await;
        }
        self.loaded.epoch_above(before.epoch, SOON).await;
    }

    /// Drains the worker of a device and, when its programs have ended, replaces it by one of the
    /// current binary's build; then new programs are added.
    async fn replace_worker(&mut self, gpu: u32) {
        done(&self.loaded, &["worker", "drain", &gpu.to_string()]);
        let demo = &mut self.loaded.demo;
        let mut workers = demo.cluster.workers.iter().enumerate();
        let of_gpu = workers.rfind(|(_, worker)| worker.gpu() == Some(gpu));
        let (index, _) = of_gpu.expect("a worker of it");
        let log = std::fs::read_to_string(&demo.cluster.started_logs()[index]);
        let log = log.expect("what it started");
        let served = |id: Option<String>| id.is_some_and(|id| log.contains(&id));
        let all = std::mem::take(&mut demo.tenants);
        let (leave, stay): (Vec<_>, Vec<_>) = all.into_iter().partition(|it| served(it.session()));
        demo.tenants = stay;
        for mut program in leave {
            let heard = program.stop(SOON).await.expect("it stops in order");
            let answered = heard.latencies.len() as u64;
            assert!(heard.stopped && answered > 0, "{heard:?}");
            assert_eq!(heard.verified, answered, "{:?}", heard.complaints);
        }
        let ended = demo.cluster.workers[index].wait(SOON).expect("it leaves");
        assert!(ended.success(), "{ended}");
        demo.cluster.start_worker(gpu).expect("another worker");
        let administrator = &demo.administrator;
        administrator.ready(2, SOON).await.expect("both are led");
        self.add_programs().await;
    }

    /// Replaces every role by one of this build, first the leaders; then restarts the broker, which
    /// serves the stored data.
    async fn replace_all(&mut self, binary: &Path) {
        self.loaded.demo.cluster.use_binary(binary);
        self.replace_leaders().await;
        let broker = &mut self.loaded.demo.cluster.broker;
        broker.restart().expect("it comes back");
        self.loaded.progress(2, SOON).await;
        // Programs of both builds share workers of both.
        self.add_programs().await;
        for gpu in 0..2 {
            self.replace_worker(gpu).await;
        }
    }
}

#[tokio::test]
#[ignore = "builds the last release's binary first, in minutes: `just last-release`"]
async fn roles_of_both_builds_replace_one_another_under_load_without_loss() {
    let (theirs, ours) = (build::binary(), Path::new(WARPLOOM));
    let mut mixed = Mixed::start(theirs).await;
    mixed.replace_all(ours).await;
    mixed.replace_all(theirs).await;
    // This build replays and verifies their work.
    mixed.loaded.demo.cluster.use_binary(ours);
    mixed.loaded.settle().await;
}

/// A build's commands on a state folder.
struct Build<'a> {
    binary: &'a Path,
    dir: &'a Path,
}

impl Build<'_> {
    /// The output of a command that must succeed.
    #[track_caller]
    fn prints(&self, arguments: &[&str]) -> String {
        let output = warploom_of(self.binary, self.dir).args(arguments).output();
        let output = output.expect("it runs");
        let (out, err) = text(&output);
        assert!(output.status.success(), "{arguments:?}: {out}{err}");
        out
    }

    /// The first object in a command's output.
    #[track_caller]
    fn object(&self, arguments: &[&str]) -> Value {
        let said = self.prints(&[arguments, &["--json"]].concat());
        let line = said.lines().next().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {said}"))
    }

    fn up(&self) -> Running {
        let mut command = warploom_of(self.binary, self.dir);
        let (up, _) = Running::announced(command.args(["up", "--json", "--leaders=2"]));
        up
    }

    /// Runs a kernel several times and checks its result; returns once all of it is recorded.
    fn submits(&self) {
        let kernel = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernels/saxpy.ptx");
        let arguments = "saxpy --block 4 --arg u32:4 --arg f32:2 --arg f32[1,2,3,4] --arg f32*4=10 \
             --out 3 --repeat 20";
        let arguments: Vec<_> = arguments.split_whitespace().collect();
        let printed = self.prints(&[&["submit", kernel], &arguments[..]].concat());
        assert!(printed.contains("50"), "10 and 20 times 2: {printed}");
        until("all of it is recorded", || {
            let status = self.object(&["status"]);
            status["input"] == status["recorded"]
        });
    }

    /// Number of launches in the usage blocks.
    fn launches(&self) -> u64 {
        let printed = self.prints(&["usage", "--json"]);
        let total = printed.lines().last().unwrap_or_default();
        let total: Value = serde_json::from_str(total).expect("JSON");
        total["total"]["launches"].as_u64().unwrap_or(0)
    }

    fn files(&self) -> [PathBuf; 4] {
        ["run.record", "run.csv", "run.jsonl", "archive"].map(|name| self.dir.join(name))
    }

    /// Writes the order in every format; returns its digest.
    fn exports(&self) -> String {
        let files = self.files();
        let [listings @ .., archive] = &files;
        for listing in listings {
            self.prints(&["order", "export", "--out", path(listing)]);
        }
        self.prints(&["order", "export", "--archive", path(archive)]);
        let replayed = self.object(&["replay"]);
        assert_eq!(replayed["skipped"], 0, "{replayed}");
        replayed["digest"].as_str().expect("a digest").to_owned()
    }

    /// Verifies and replays the exported files.
    fn reads(&self, digest: &str) {
        let files = self.files();
        let [listings @ .., archive] = &files;
        let [record, others @ ..] = listings;
        for source in [record, archive] {
            self.prints(&["order", "verify", path(source), "--expect", digest]);
            self.prints(&["replay", "--record", path(source), "--expect", digest]);
        }
        for other in others {
            self.prints(&["order", "verify", path(other)]);
            self.prints(&["order", "diff", path(record), path(other)]);
        }
    }
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
#[ignore = "builds the last release's binary first, in minutes: `just last-release`"]
fn what_either_build_left_is_served_replayed_and_verified_by_the_other() {
    let (dir, theirs) = (TempDir::new().expect("a directory"), build::binary());
    let dir = dir.path();
    let [theirs, ours] = [theirs, Path::new(WARPLOOM)].map(|binary| Build { binary, dir });
    let mut launches = 0;
    let mut left: Option<(&Build<'_>, String)> = None;
    for (turn, build) in [&theirs, &ours, &theirs, &ours].into_iter().enumerate() {
        let mut up = build.up();
        if let Some((before, digest)) = left.take() {
            // The order goes on from the other build's end, and so do settings and usage.
            build.reads(&digest);
            let tenants = build.prints(&["tenant", "list"]);
            assert!(tenants.contains("extra"), "{tenants}");
            let settings = build.prints(&["cluster", "show", "--json"]);
            assert!(settings.contains("4ms"), "{settings}");
            assert!(build.launches() >= launches, "{}", before.binary.display());
        } else {
            build.prints(&["tenant", "create", "extra", "--weight", "7"]);
            build.prints(&["cluster", "set", "window=4ms"]);
        }
        build.submits();
        until("its launches are accounted", || {
            build.launches() >= launches + 20
        });
        launches = build.launches();
        assert_eq!(launches, 20 * (turn as u64 + 1));
        let digest = build.exports();
        // The other build replays the live record to the same digest.
        for other in [&theirs, &ours] {
            let verified = other.object(&["order", "verify"]);
            assert!(verified["first"].is_null(), "{verified}");
            assert_eq!(verified["digest"], *digest);
            other.prints(&["replay", "--expect", &digest]);
        }
        left = Some((build, digest));
        up.signal(Signal::TERM);
        assert_eq!(up.ends(), Some(0), "{}", up.said());
    }
    let evidence = dir.join("evidence");
    let demo = ["demo", "--seconds=3", "--evidence", path(&evidence)];
    theirs.prints(&demo);
    ours.prints(&["order", "verify", path(&evidence)]);
}
