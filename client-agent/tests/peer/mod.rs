//! A leader and a worker driven by hand, on a real broker: enough of the protocol for a client,
//! with memory for copies and nothing that runs kernels.

mod held;
mod serving;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use broker::testing::TestBroker;
use client_agent::{Client, Session, Settings};
use tokio::sync::oneshot;

use serving::Peer;

/// What a test changes and looks at.
#[derive(Default)]
pub(crate) struct Knobs {
    /// Of so many messages one is lost, both ways; 0 loses none.
    pub(crate) lose: AtomicU32,
    /// The op that faults, 0 for none.
    pub(crate) fault: AtomicU64,
    /// Batches received, resent ones too.
    pub(crate) batches: AtomicU64,
    /// Bytes of module images received.
    pub(crate) image_bytes: AtomicU64,
    /// Launches run: (function, grid x, parameters).
    pub(crate) launches: Mutex<Vec<(u32, u32, Vec<u8>)>>,
    /// `traceparent` headers seen, with the last token of their subjects.
    pub(crate) traces: Mutex<Vec<(String, String)>>,
    count: AtomicU32,
}

impl Knobs {
    fn loses(&self) -> bool {
        let every = self.lose.load(Ordering::Relaxed);
        // Scattered, or the losses fall into step with what is sent again.
        let scattered = |count: u32| count.wrapping_mul(0x9e37_79b9).rotate_left(11) ^ count;
        every > 0 && scattered(self.count.fetch_add(1, Ordering::Relaxed)) % every == 0
    }
}

/// A broker and the two behind it.
pub(crate) struct Cluster {
    pub(crate) broker: TestBroker,
    pub(crate) knobs: Arc<Knobs>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let broker = TestBroker::start();
        let knobs = Arc::new(Knobs::default());
        let (stop, stopped) = oneshot::channel();
        let (ready, readied) = std::sync::mpsc::channel();
        let login = broker.credentials().cluster_user.clone().expect("a login");
        let (url, theirs) = (broker.url().to_owned(), Arc::clone(&knobs));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async move {
                let bus = async_nats::ConnectOptions::new()
                    .user_and_password(login.user, login.password)
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
                    _ = stopped => {}
                }
            });
        });
        readied.recv().expect("the peer is ready");
        Self {
            broker,
            knobs,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub(crate) fn settings(&self) -> Settings {
        let login = &self
            .broker
            .credentials()
            .tenant("a")
            .expect("tenant a")
            .login;
        Settings::new(self.broker.url(), "test", "a").with_login(&login.user, &login.password)
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

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
