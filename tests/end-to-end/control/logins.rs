//! Logins: the one-time link, cookies with their CSRF word, host names, replicas, restarts, and
//! TLS.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use test_cluster::TempDir;

use super::interface::{Interface, cluster, nobody, of_role};
use crate::cluster::{administrator, done, objects};
use crate::loaded::LoadedCluster;
use crate::run::text;

/// Follows a link; returns the status and the cookie.
async fn followed(interface: &Interface, link: &str, url: &str) -> (u16, String) {
    let path = link.strip_prefix(url).expect("a link of this controller");
    let answer = interface.get(path).await;
    let cookie = answer.header("set-cookie");
    let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
    (answer.status, cookie)
}

fn link(loaded: &LoadedCluster) -> String {
    done(loaded, &["controller", "link"]).trim().to_owned()
}

#[tokio::test]
async fn a_link_logs_one_browser_in_and_what_it_changes_needs_a_second_word() {
    let loaded = cluster(&["chat"], 1).await;
    let (anybody, url) = (
        nobody(&loaded),
        loaded.demo.cluster.controllers[0].said.url.clone(),
    );
    let link = link(&loaded);
    // A client that only checks the link does not use it up.
    let path = link.strip_prefix(&url).expect("a link of this controller");
    assert_eq!(anybody.ask("HEAD", path, None).await.status, 405);
    let (status, cookie) = followed(&anybody, &link, &url).await;
    assert_eq!(status, 303);
    let secret = link.split_once("once=").expect("a secret").1;
    assert!(!cookie.contains(secret), "the link's secret is used up");
    let (_, again) = followed(&anybody, &link, &url).await;
    assert_eq!(again, "", "a link is good once");
    let (_, wrong) = followed(&anybody, &format!("{url}/login?once=wl_0_0"), &url).await;
    assert_eq!(wrong, "");
    let browser = anybody.with("cookie", &cookie);
    let me = browser.get("/api/v1/me").await.is(200).json();
    assert_eq!(
        (&me["role"], &me["name"]),
        (&"operator".into(), &"link".into())
    );
    let change = json!({"name": "batch"});
    let refused = browser
        .send("POST", "/api/v1/tenants", change.clone())
        .await;
    refused.problem(403, "E-API-ROLE");
    let wrong = browser.with("x-csrf-token", &"0".repeat(64));
    let refused = wrong.send("POST", "/api/v1/tenants", change.clone()).await;
    refused.problem(403, "E-API-ROLE");
    let right = browser.with("x-csrf-token", me["csrf"].as_str().expect("a word"));
    right.send("POST", "/api/v1/tenants", change).await.is(201);
    // With another host name: a foreign page with a name that resolves to this host.
    let elsewhere = browser.with("host", "evil.example");
    elsewhere
        .get("/api/v1/me")
        .await
        .problem(400, "E-API-MALFORMED");
    right.ask("POST", "/api/v1/logout", None).await.is(204);
    browser.get("/api/v1/me").await.problem(401, "E-API-LOGIN");
    // Every answer says what a page may load, and that it must not be cached.
    let answer = anybody.get("/").await.is(200);
    assert!(
        answer
            .header("content-security-policy")
            .starts_with("default-src 'self'")
    );
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    // Neither a log nor stored data contains a secret.
    let log = std::fs::read_to_string(loaded.demo.cluster.log("controller-0")).expect("a log");
    let word = cookie.rsplit('_').next().expect("a word");
    assert!(!log.contains(secret) && !log.contains(word));
}

/// A valid link is not refused because of other requests from its address.
#[tokio::test]
async fn made_up_links_keep_no_good_one_out() {
    let loaded = cluster(&["chat"], 1).await;
    let url = loaded.demo.cluster.controllers[0].said.url.clone();
    let links: Vec<_> = (0..5).map(|_| link(&loaded)).collect();
    let (tell, told) = tokio::sync::watch::channel(0_u64);
    let floods: Vec<_> = (0..4)
        .map(|_| {
            let (anybody, tell) = (nobody(&loaded), tell.clone());
            tokio::spawn(async move {
                let made_up = format!("wl_{}_{}", "0".repeat(16), "0".repeat(64));
                loop {
                    let answer = anybody.get(&format!("/login?once={made_up}")).await;
                    if answer.status == 429 {
                        tell.send_modify(|refused| *refused += 1);
                    }
                }
            })
        })
        .collect();
    for link in links {
        // The address is refused by now, and stays so.
        let (mut news, before) = (told.clone(), *told.borrow());
        let refused = news.wait_for(|refused| *refused > before + 10);
        refused.await.expect("they go on");
        let (status, cookie) = followed(&nobody(&loaded), &link, &url).await;
        assert_eq!(status, 303);
        assert_ne!(cookie, "", "it is logged in");
    }
    floods.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn what_one_controller_knows_the_others_know_and_a_restart_forgets_nothing() {
    let mut loaded = cluster(&["chat"], 1).await;
    let operator = of_role(&loaded, "operator", None);
    let key = operator.with("idempotency-key", "make-batch");
    let new = json!({"name": "batch", "priority": 3});
    let made = key
        .send("POST", "/api/v1/tenants", new.clone())
        .await
        .is(201);
    assert_eq!(made.header("idempotency-replayed"), "");
    let second = loaded
        .demo
        .cluster
        .start_controller()
        .await
        .expect("another one");
    let there = second.said.url.clone();
    let theirs = |interface: &Interface| interface.at(&there);
    theirs(&operator).get("/api/v1/cluster").await.is(200);
    let again = theirs(&key)
        .send("POST", "/api/v1/tenants", new)
        .await
        .is(201);
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.json(), made.json());
    let other = json!({"name": "other"});
    theirs(&key)
        .send("POST", "/api/v1/tenants", other)
        .await
        .problem(422, "E-API-VALUE");
    // A token that is created once is shown once.
    let key = operator.with("idempotency-key", "make-token");
    let token = json!({"name": "ci", "role": "viewer"});
    let made = key
        .send("POST", "/api/v1/tokens", token.clone())
        .await
        .is(201);
    let secret = made.json()["secret"].as_str().expect("a secret").to_owned();
    let again = key.send("POST", "/api/v1/tokens", token).await;
    assert!(!again.problem(409, "E-API-CONFLICT").text.contains(&secret));
    // The first controller is killed.
    loaded.demo.cluster.controllers[0]
        .role
        .kill()
        .expect("it dies");
    let ci = nobody(&loaded).with_token(&secret);
    theirs(&ci).get("/api/v1/tenants/batch").await.is(200);
    // A token that is revoked at one controller is refused at all within a second.
    let third = loaded
        .demo
        .cluster
        .start_controller()
        .await
        .expect("another one");
    let third = third.said.url.clone();
    ci.at(&third).get("/api/v1/tenants").await.is(200);
    let id = made.json()["id"].as_str().expect("an id").to_owned();
    done(&loaded, &["controller", "token", "revoke", &id]);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    for url in [&there, &third] {
        ci.at(url)
            .get("/api/v1/tenants")
            .await
            .problem(401, "E-API-LOGIN");
    }
    let listed = objects(&loaded, &["controller", "token", "list", "--json"]);
    assert_eq!(listed.len(), 1, "{listed:?}");
    let link = link(&loaded);
    assert!(link.starts_with(&third), "of the newest: {link}");
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "steps that share state")]
async fn others_than_this_host_come_by_tls_or_not_at_all() {
    let mut loaded = cluster(&["chat"], 1).await;
    let secret = done(&loaded, &["controller", "token", "create", "x"]);
    let tls = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/end-to-end/control/tls");
    let set = |key: &str, value: String| ["--set".to_owned(), format!("controller.{key}={value}")];
    let file = |name: &str| tls.join(name).display().to_string();
    // With a page in development.
    let page = TempDir::new().expect("a directory");
    std::fs::write(page.path().join("index.html"), "of a folder").expect("written");
    let folder = page.path().display().to_string();
    let arguments = [
        vec!["--json".to_owned(), "--page".to_owned(), folder],
        set("listen", "0.0.0.0:0".into()).to_vec(),
        set("tls_cert", file("cert.pem")).to_vec(),
        set("tls_key", file("key.pem")).to_vec(),
    ];
    let role = loaded
        .demo
        .cluster
        .role("controller", "secure", &arguments.concat());
    let mut role = role.expect("it starts");
    let mut said = String::new();
    let stdout = role.take_stdout().expect("its output");
    BufReader::new(stdout).read_line(&mut said).expect("a line");
    let said: Value = serde_json::from_str(&said).expect("JSON");
    let (url, link) = (
        said["url"].as_str().expect("one"),
        said["link"].as_str().expect("one"),
    );
    assert!(url.starts_with("https://localhost:"), "{url}");
    let authority = std::fs::read(tls.join("ca.pem")).expect("a certificate");
    let anybody = Interface::trusting(url, &authority);
    assert_eq!(anybody.get("/").await.is(200).text, "of a folder");
    for outside in ["/../secret.js", "/%2e%2e/secret.js", "/no.js", "/index"] {
        anybody.get(outside).await.problem(404, "E-API-MISSING");
    }
    anybody
        .with_token(secret.trim())
        .get("/api/v1/cluster")
        .await
        .is(200);
    let answer = anybody
        .get(link.strip_prefix(url).expect("of it"))
        .await
        .is(303);
    let cookie = answer.header("set-cookie");
    assert!(
        cookie.starts_with("__Host-wl=") && cookie.contains("; Secure"),
        "{cookie}"
    );
    assert!(
        answer
            .header("strict-transport-security")
            .contains("max-age=")
    );
    drop(role);
    loaded.demo.cluster.tend();
    for arguments in [
        &["controller", "--set", "controller.listen=0.0.0.0:0"][..],
        &["controller", "--set", "controller.tls_cert=cert.pem"],
        &["controller", "--set", "controller.prices=cheap"],
        &[
            "controller",
            "token",
            "create",
            "x",
            "--role",
            "tenant-admin",
        ],
        &[
            "controller",
            "token",
            "create",
            "x",
            "--operation",
            "no.such",
        ],
        &["controller", "token", "revoke", "nonsense"],
    ] {
        let output = administrator(&loaded, arguments);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {:?}",
            text(&output)
        );
    }
}
