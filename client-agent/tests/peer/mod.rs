//! A leader and a worker driven by hand, on a real broker: enough of the protocol for a client,
//! with memory for copies and nothing that runs kernels.

mod held;
mod knobs;
mod serving;

use std::sync::Arc;

use client_agent::{Client, Session, Settings};
use test_cluster::{RoleThread, TestCluster};

use knobs::Knobs;
use serving::Peer;

/// A broker with the leader and the worker on it.
pub(crate) struct Cluster {
    // Ends with its connection, before the broker.
    _peer: RoleThread<()>,
    pub(crate) broker: TestCluster,
    pub(crate) knobs: Arc<Knobs>,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let broker = TestCluster::start();
        let knobs = Arc::new(Knobs::default());
        let (ready, readied) = std::sync::mpsc::channel();
        let (user, password) = broker.cluster_login();
        let (url, theirs) = (broker.url().to_owned(), Arc::clone(&knobs));
        let peer = RoleThread::start(move |asked| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async move {
                let bus = async_nats::ConnectOptions::new()
                    .user_and_password(user, password)
                    .custom_inbox_prefix("wl.v1.test.s.inbox")
                    .reconnect_delay_callback(|_| std::time::Duration::from_millis(20))
                    .connect(&url)
                    .await
                    .expect("a connection");
                let messages = bus.subscribe("wl.v1.test.t.*.up.>").await;
                let messages = messages.expect("a subscription");
                bus.flush().await.expect("flushed");
                ready.send(()).expect("the test waits");
                let mut peer = Peer::new(bus, theirs);
                tokio::select! {
                    () = peer.serve(messages) => {}
                    () = asked => {}
                }
            });
        });
        readied.recv().expect("the peer is ready");
        Self {
            _peer: peer,
            broker,
            knobs,
        }
    }

    pub(crate) fn settings(&self) -> Settings {
        let (user, password) = self.broker.tenant_login("a");
        Settings::new(self.broker.url(), "test", "a").with_login(&user, &password)
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.settings()).expect("a client")
    }

    /// A client with a session of its own.
    pub(crate) fn open(&self) -> (Client, Session) {
        let client = self.client();
        let session = client.open().expect("a session");
        (client, session)
    }
}
