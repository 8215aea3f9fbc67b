//! A client of the interface: a foreign HTTP library, and JSON.

use std::sync::Once;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Certificate, Client, Method, Response};
use serde_json::Value;

use crate::cluster::done;
use crate::loaded::{LoadedCluster, plan};

/// Time limit of an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time limit of an answer that is a stream of events: it lasts for as long as a test works.
const WHOLE: Duration = Duration::from_secs(240);

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    /// Its body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// A header.
    pub(crate) fn header(&self, name: &str) -> String {
        let value = self.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    }

    /// The answer, checked to have this status.
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// The answer, checked to be a problem with this status and code.
    #[track_caller]
    pub(crate) fn problem(self, status: u16, code: &str) -> Self {
        let this = self.is(status);
        assert_eq!(this.header("content-type"), "application/problem+json");
        assert_eq!(this.json()["code"], code, "{this:?}");
        assert_eq!(this.json()["status"], status);
        this
    }
}

/// Reads an answer to its end.
async fn read(response: Response) -> Answer {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await.expect("a whole answer");
    Answer {
        status,
        headers,
        text,
    }
}

/// A client, with the headers that it sends each time.
#[derive(Clone)]
pub(crate) struct Interface {
    client: Client,
    url: String,
    headers: HeaderMap,
}

/// A client without a login that trusts an authority.
fn client(authority: Option<&[u8]>) -> Client {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        let provider = rustls::crypto::ring::default_provider();
        provider
            .install_default()
            .expect("the first of this process");
    });
    let client = Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(PATIENCE);
    let trusted = authority.map(|pem| Certificate::from_pem(pem).expect("a certificate"));
    let client = client.tls_certs_only(trusted);
    client.build().expect("a client")
}

impl Interface {
    /// A client without a login.
    pub(crate) fn new(url: &str) -> Self {
        Self {
            client: client(None),
            url: url.to_owned(),
            headers: HeaderMap::new(),
        }
    }

    /// A client without a login that trusts an authority.
    pub(crate) fn trusting(url: &str, authority: &[u8]) -> Self {
        Self {
            client: client(Some(authority)),
            ..Self::new(url)
        }
    }

    /// The same client with another header each time.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut other = self.clone();
        let name: HeaderName = name.parse().expect("a header's name");
        let value = HeaderValue::from_str(value).expect("a header's value");
        other.headers.insert(name, value);
        other
    }

    /// The same client at another controller.
    pub(crate) fn at(&self, url: &str) -> Self {
        Self {
            url: url.to_owned(),
            ..self.clone()
        }
    }

    /// The same client with a token.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        self.with("authorization", &format!("Bearer {token}"))
    }

    /// Sends a request; returns the answer before its body has been read.
    pub(crate) async fn begin(&self, method: &str, path: &str, body: Option<&Value>) -> Response {
        let method: Method = method.parse().expect("a method");
        let mut request = self
            .client
            .request(method, format!("{}{path}", self.url))
            .timeout(WHOLE)
            .headers(self.headers.clone());
        if let Some(body) = body {
            request = request
                .header("content-type", "application/json")
                .body(body.to_string());
        }
        request.send().await.expect("an answer")
    }

    /// Sends a request.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        read(self.begin(method, path, body).await).await
    }

    /// Sends a file.
    pub(crate) async fn ask_bytes(&self, method: &str, path: &str, file: String) -> Answer {
        let method: Method = method.parse().expect("a method");
        let request = self.client.request(method, format!("{}{path}", self.url));
        let request = request.headers(self.headers.clone()).body(file);
        read(request.send().await.expect("an answer")).await
    }

    /// Sends a GET request.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, None).await
    }

    /// Sends a GET request; `None` if no server listens.
    pub(crate) async fn try_get(&self, path: &str) -> Option<Answer> {
        let request = self.client.get(format!("{}{path}", self.url));
        let response = request.headers(self.headers.clone()).send().await.ok()?;
        Some(read(response).await)
    }

    /// Sends a body.
    pub(crate) async fn send(&self, method: &str, path: &str, body: Value) -> Answer {
        self.ask(method, path, Some(&body)).await
    }
}

/// A cluster with a controller, and tenants without work.
pub(crate) async fn cluster(tenants: &[&str], workers: usize) -> LoadedCluster {
    let plans: Vec<_> = tenants.iter().map(|name| plan(name, "search", 1)).collect();
    LoadedCluster::made(1, workers, &plans, |options| options.controllers = 1).await
}

/// A client without a login for a cluster's controller.
pub(crate) fn nobody(loaded: &LoadedCluster) -> Interface {
    Interface::new(&loaded.demo.cluster.controllers[0].said.url)
}

/// A client with a new token of a role.
pub(crate) fn of_role(loaded: &LoadedCluster, role: &str, tenant: Option<&str>) -> Interface {
    let mut arguments = vec!["controller", "token", "create", role, "--role", role];
    if let Some(tenant) = tenant {
        arguments.extend(["--tenant", tenant]);
    }
    let secret = done(loaded, &arguments);
    nobody(loaded).with_token(secret.trim())
}
