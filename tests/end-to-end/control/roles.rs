//! Permissions: every operation of the document, with every role and without a login; and a
//! tenant-admin with the objects of other tenants.

use serde_json::{Value, json};

use super::interface::{Answer, Interface, cluster, nobody, of_role};
use crate::cluster::objects;
use crate::loaded::{LoadedCluster, SOON, plan};

/// Permissions of roles: v(iewer), t(enant-admin), o(perator), a(uditor). Written down again, not
/// read from the program.
const TABLE: [(&str, &str); 20] = [
    ("cluster.read", "vtoa"),
    ("cluster.hold", "o"),
    ("tenants.read", "vtoa"),
    ("tenants.write", "o"),
    ("tenants.login", "to"),
    ("workers.read", "voa"),
    ("workers.drain", "o"),
    ("sessions.read", "vtoa"),
    ("sessions.end", "to"),
    ("profiles.read", "voa"),
    ("profiles.write", "o"),
    ("settings.read", "voa"),
    ("settings.write", "o"),
    ("usage.read", "vtoa"),
    ("order.read", "vtoa"),
    ("order.verify", "oa"),
    ("order.export", "oa"),
    ("events.read", "vtoa"),
    ("tokens.read", "oa"),
    ("tokens.write", "o"),
];

/// An operation of the document.
struct Operation {
    method: String,
    path: String,
    needs: String,
}

async fn operations(interface: &Interface) -> Vec<Operation> {
    let document = interface.get("/api/v1/openapi.json").await.is(200).json();
    let paths = document["paths"].as_object().expect("paths");
    let mut all = Vec::new();
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().expect("methods") {
            all.push(Operation {
                method: method.to_uppercase(),
                path: path.clone(),
                needs: operation["x-operation"].as_str().expect("it says").into(),
            });
        }
    }
    all
}

impl Operation {
    /// Requests a missing object, or sends an invalid body: with the permission, the answer says
    /// so.
    async fn tried(&self, interface: &Interface) -> Answer {
        let path = self.path.replace('{', "no-").replace('}', "");
        let body = (self.method != "GET").then(|| json!("nonsense"));
        if path.starts_with("/api/v1/events/") {
            // A stream without an end is not read any further.
            let response = interface.begin(&self.method, &path, None).await;
            return Answer {
                status: response.status().as_u16(),
                headers: response.headers().clone(),
                text: String::new(),
            };
        }
        interface.ask(&self.method, &path, body.as_ref()).await
    }
}

#[tokio::test]
async fn each_role_may_do_what_the_table_says_and_nothing_else() {
    let loaded = cluster(&["chat", "other"], 1).await;
    let anybody = nobody(&loaded);
    let operations = operations(&anybody).await;
    let known: Vec<_> = TABLE.iter().map(|(name, _)| *name).collect();
    for operation in &operations {
        let open = ["public", "login"].contains(&&*operation.needs);
        assert!(
            open || known.contains(&&*operation.needs),
            "{}",
            operation.needs
        );
    }
    for (role, letter, tenant) in [
        ("viewer", 'v', None),
        ("tenant-admin", 't', Some("chat")),
        ("operator", 'o', None),
        ("auditor", 'a', None),
    ] {
        let theirs = of_role(&loaded, role, tenant);
        let me = theirs.get("/api/v1/me").await.is(200).json();
        let may: Vec<Value> = TABLE
            .iter()
            .filter(|(_, letters)| letters.contains(letter))
            .map(|(name, _)| Value::from(*name))
            .collect();
        assert_eq!(me["operations"], Value::from(may), "{role}");
        for operation in &operations {
            let mut rows = TABLE.iter();
            let row = rows.find(|(name, _)| *name == operation.needs);
            let allowed = row.is_none_or(|(_, letters)| letters.contains(letter));
            let answer = operation.tried(&theirs).await;
            let (method, path) = (&operation.method, &operation.path);
            match allowed {
                true => {
                    let refused = [401, 403].contains(&answer.status);
                    assert!(
                        !refused && answer.status < 500,
                        "{role} {method} {path}: {answer:?}"
                    );
                }
                false => assert_eq!(answer.status, 403, "{role} {method} {path}: {answer:?}"),
            }
        }
    }
    // Without a login only the document can be read; the requests are so many that they are
    // throttled.
    let mut slowed = false;
    for operation in operations.iter().chain(&operations) {
        let answer = operation.tried(&anybody).await;
        let expected: &[u16] = match &*operation.needs {
            "public" => &[200],
            _ => &[401, 429],
        };
        assert!(expected.contains(&answer.status), "{answer:?}");
        slowed |= answer.status == 429;
        if answer.status == 429 {
            assert!(answer.header("retry-after").parse::<u64>().is_ok());
        }
    }
    assert!(slowed, "whoever is unknown is slowed down");
    // A client with a login is not throttled.
    of_role(&loaded, "viewer", None)
        .get("/api/v1/cluster")
        .await
        .is(200);
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "steps that share state")]
async fn a_tenant_admin_finds_nothing_of_others() {
    let mut loaded = LoadedCluster::made(
        1,
        1,
        &[plan("chat", "search", 1), plan("other", "search", 1)],
        |options| {
            options.controllers = 1;
        },
    )
    .await;
    loaded
        .work(&[plan("chat", "search", 1), plan("other", "search", 1)])
        .await;
    loaded.progress(20, SOON).await;
    let admin = of_role(&loaded, "tenant-admin", Some("chat"));
    let sessions = objects(&loaded, &["session", "list", "--json"]);
    let session = |tenant: &str| {
        let found = sessions.iter().find(|row| row["tenant"] == tenant);
        found.expect("it has one")["id"]
            .as_str()
            .expect("an id")
            .to_owned()
    };
    let theirs = session("other");
    for (method, path) in [
        ("GET", "/tenants/other".to_owned()),
        ("POST", "/tenants/other/login".into()),
        ("GET", format!("/sessions/{theirs}")),
        ("DELETE", format!("/sessions/{theirs}")),
        ("GET", "/sessions?tenant=other".into()),
        ("GET", "/usage?tenant=other".into()),
        ("GET", "/usage.csv?tenant=other".into()),
        ("GET", "/usage.focus.csv?tenant=other".into()),
        ("GET", "/order?tenant=other".into()),
        ("GET", "/tenants/other/why".into()),
        ("GET", format!("/sessions/{theirs}/why")),
        ("GET", "/events/order?tenant=other".into()),
    ] {
        let answer = admin.ask(method, &format!("/api/v1{path}"), None).await;
        let answer = answer.problem(404, "E-API-MISSING");
        // The same words as for a missing object.
        let path = path
            .replace("other", "nobody")
            .replace(&theirs, "00000000000000ff");
        let missing = admin.ask(method, &format!("/api/v1{path}"), None).await;
        let words = |answer: &Answer| {
            let text = answer.json()["detail"].to_string();
            text.replace("nobody", "other")
                .replace("00000000000000ff", &theirs)
        };
        assert_eq!(words(&missing), words(&answer), "{method} {path}");
    }
    // Lists have their own objects, and nothing else.
    for path in [
        "/tenants",
        "/sessions",
        "/usage",
        "/usage.csv",
        "/usage.focus.csv",
        "/order?limit=1000",
    ] {
        let answer = admin.get(&format!("/api/v1{path}")).await.is(200);
        assert!(
            answer.text.contains("chat") && !answer.text.contains("other"),
            "{path}: {answer:?}"
        );
    }
    for path in ["/events/state", "/events/status", "/events/order"] {
        let mut response = admin.begin("GET", &format!("/api/v1{path}"), None).await;
        let mut heard = String::new();
        while !heard.contains("data: ") || heard.len() < 200 {
            let chunk = response.chunk().await.expect("it comes").expect("more");
            heard += std::str::from_utf8(&chunk).expect("text");
            if path == "/events/state" && heard.contains("data: ") {
                break;
            }
        }
        assert!(
            heard.contains("chat") && !heard.contains("other"),
            "{path}: {heard}"
        );
    }
    // They may end their own sessions.
    let own = session("chat");
    admin
        .ask("DELETE", &format!("/api/v1/sessions/{own}"), None)
        .await
        .is(204);
}
