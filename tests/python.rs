//! A client in another language against real processes. `tests/peers/python/submit.py` opens a
//! session, runs a kernel and verifies its result, based only on `docs/reference/wire.md`.

use std::path::{Path, PathBuf};
use std::process::Command;

use bus_schemas::TenantSettings;
use test_cluster::TempDir;
use warploom_cli::local::{LocalCluster, LocalOptions};

const TENANT: &str = "visitor";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/python")
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("python3 starts");
    let (said, complained) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert!(output.status.success(), "{command:?}: {said}{complained}");
    said
}

/// The packages of `requirements.txt`, fetched by pip once for all runs.
fn packages() -> PathBuf {
    let requirements = folder().join("requirements.txt");
    let pinned = std::fs::read(&requirements).expect("requirements.txt");
    let version = bus_schemas::ModuleHash::of(&pinned).to_string();
    let tools = broker::tools_dir(None);
    let installed = tools.join(format!("python-{}", &version[..16]));
    if !installed.exists() {
        std::fs::create_dir_all(&tools).expect("a directory for tools");
        // Created whole or not at all: another run may be creating it, too.
        let partial = tools.join(format!("python-{}.partial", std::process::id()));
        run(Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--require-hashes"])
            .args(["--disable-pip-version-check", "--root-user-action=ignore"])
            .args(["--only-binary", ":all:", "--requirement"])
            .arg(&requirements)
            .arg("--target")
            .arg(&partial));
        if std::fs::rename(&partial, &installed).is_err() {
            let _ = std::fs::remove_dir_all(&partial);
        }
    }
    installed
}

#[tokio::test]
async fn a_client_in_python_verifies_its_own_result() {
    let packages = tokio::task::spawn_blocking(packages)
        .await
        .expect("packages");
    let dir = TempDir::new().expect("a directory");
    let mut options = LocalOptions::new(dir.path(), "test").expect("options");
    options.binary = env!("CARGO_BIN_EXE_warploom").into();
    options.tenants = vec![(TENANT.parse().expect("a name"), TenantSettings::default())];
    options.settings = vec![("worker.device".into(), "cpu".into())];
    let mut cluster = LocalCluster::start(options).await.expect("a cluster");

    let credentials = cluster.broker.credentials();
    let login = &credentials.tenant(TENANT).expect("a tenant").login;
    let mut submit = Command::new("python3");
    submit
        .env("PYTHONPATH", packages)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(folder().join("submit.py"))
        .args([credentials.url.with_login(), &credentials.cluster, TENANT])
        .args([&login.user, &login.password]);
    let runs = move || [run(&mut submit), run(&mut submit)];
    for said in tokio::task::spawn_blocking(runs).await.expect("two runs") {
        assert!(said.starts_with("1000 elements of 2.0 x + y"), "{said}");
    }
    cluster.drain().expect("every role ends by itself");
}
