//! Connections for the tests, each with the events it saw.

use std::future::Future;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event};
use broker::{Credentials, Login};
use tokio::sync::mpsc;

/// A connection, and the events that it received.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) events: mpsc::UnboundedReceiver<Event>,
}

impl Connection {
    /// Waits for an event that `wanted` accepts and returns its result.
    pub(crate) async fn event<T>(&mut self, wanted: impl Fn(&Event) -> Option<T>) -> T {
        soon("an event", async {
            loop {
                let event = self.events.recv().await.expect("the connection lives");
                if let Some(value) = wanted(&event) {
                    return value;
                }
            }
        })
        .await
    }

    /// Waits for a permission error that names `operation` and `subject`.
    pub(crate) async fn refusal(&mut self, operation: &str, subject: &str) {
        let (operation, subject) = (operation.to_lowercase(), subject.to_lowercase());
        self.event(|event| {
            let Event::ServerError(error) = event else {
                return None;
            };
            let text = error.to_string().to_lowercase();
            let wanted = format!("permissions violation for {operation} to \"{subject}\"");
            text.contains(&wanted).then_some(())
        })
        .await;
    }
}

pub(crate) async fn connect(url: &str, login: &Login, name: &str, inbox: &str) -> Connection {
    try_connect(url, login, name, inbox)
        .await
        .expect("the login is accepted")
}

pub(crate) async fn try_connect(
    url: &str,
    login: &Login,
    name: &str,
    inbox: &str,
) -> Result<Connection, async_nats::ConnectError> {
    let (sender, events) = mpsc::unbounded_channel();
    let options =
        ConnectOptions::with_user_and_password(login.user.clone(), login.password.clone())
            .name(name)
            .custom_inbox_prefix(inbox)
            .reconnect_delay_callback(|_| Duration::from_millis(10))
            .event_callback(move |event| {
                let _ = sender.send(event);
                async {}
            });
    let client = options.connect(url).await?;
    Ok(Connection { client, events })
}

pub(crate) async fn connect_cluster(credentials: &Credentials, name: &str) -> Connection {
    let login = credentials.cluster_user.as_ref().expect("a cluster user");
    let inbox = credentials.subjects().expect("a cluster").cluster_inbox();
    connect(credentials.url.with_login(), login, name, &inbox).await
}

pub(crate) async fn connect_tenant(credentials: &Credentials, tenant: &str) -> Connection {
    let login = &credentials.tenant(tenant).expect("a login").login;
    connect(
        credentials.url.with_login(),
        login,
        tenant,
        &credentials.tenant_inbox(tenant).expect("a name"),
    )
    .await
}

/// The value of `future`; panics with the name of what did not come.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, future)
        .await
        .unwrap_or_else(|_| panic!("{what} did not come"))
}

/// Waits until the server has handled everything that the client sent before.
pub(crate) async fn settle(client: &Client) {
    // A subscription to its own inbox answers a request only after everything sent before.
    let inbox = client.new_inbox();
    drop(client.subscribe(inbox).await.expect("subscribes"));
    client.flush().await.expect("flushes");
}
