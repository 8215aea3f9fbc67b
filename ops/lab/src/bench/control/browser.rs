//! A browser as far as HTTP goes: it logs in by a link, reads, and watches streams.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use reqwest::header::{COOKIE, SET_COOKIE};
use serde_json::Value;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// Maximum wait for an event.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A browser.
pub(in crate::bench) struct Browser {
    client: reqwest::Client,
    url: String,
    cookie: String,
}

/// A stream that the browser listens to.
pub(super) struct Heard {
    state: watch::Receiver<State>,
    listening: JoinHandle<()>,
}

/// Streams that have a listening thread of their own.
pub(super) struct Beside {
    stop: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<Result<Vec<u64>>>,
}

impl Beside {
    /// Stops listening. Returns the number of events of each stream.
    pub(super) fn stop(self) -> Result<Vec<u64>> {
        // If this fails, the thread has ended already.
        let _ = self.stop.send(());
        let heard = self.thread.join();
        heard.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn client() -> Result<reqwest::Client> {
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    Ok(client.build()?)
}

/// State of a stream: the number of events, the last op of the newest, and the time of its arrival.
#[derive(Debug, Clone, Copy)]
struct State {
    events: u64,
    last_op: u64,
    came: Instant,
}

impl Browser {
    /// Logs in by a link.
    pub(in crate::bench) async fn log_in(url: &str, link: &str) -> Result<Self> {
        // A provider that this process has installed already is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = client()?;
        let answer = client.get(link).send().await?;
        let cookie = answer.headers().get(SET_COOKIE).context("no cookie came")?;
        let cookie = cookie.to_str()?.split(';').next().unwrap_or_default();
        Ok(Self {
            client,
            url: url.to_owned(),
            cookie: cookie.to_owned(),
        })
    }

    async fn ask(&self, path: &str) -> Result<reqwest::Response> {
        let request = self.client.get(format!("{}{path}", self.url));
        let answer = request.header(COOKIE, &self.cookie).send().await?;
        ensure!(answer.status().is_success(), "{path}: {}", answer.status());
        Ok(answer)
    }

    /// Reads a page.
    pub(in crate::bench) async fn get(&self, path: &str) -> Result<String> {
        Ok(self.ask(path).await?.text().await?)
    }

    /// Opens this many streams of the order. A separate thread listens to them meanwhile.
    pub(super) fn watch_beside(&self, watchers: usize) -> Result<Beside> {
        let (url, cookie) = (self.url.clone(), self.cookie.clone());
        let (ready, is_ready) = mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            admin::block_on(async {
                let browser = Self {
                    client: client()?,
                    url,
                    cookie,
                };
                let mut heard = Vec::new();
                for _ in 0..watchers {
                    heard.push(browser.watch().await?);
                }
                // The waiting side also notices the end of this thread.
                let _ = ready.send(());
                drop(stopped.await);
                Ok(heard.into_iter().map(Heard::stop).collect())
            })
        });
        // If the thread failed, its end says why.
        let _ = is_ready.recv();
        Ok(Beside { stop, thread })
    }

    /// Listens to the order.
    pub(super) async fn watch(&self) -> Result<Heard> {
        let mut answer = self.ask("/api/v1/events/order").await?;
        let (tell, state) = watch::channel(State {
            events: 0,
            last_op: 0,
            came: Instant::now(),
        });
        let tell = Arc::new(tell);
        let listening = tokio::spawn(async move {
            let mut read = String::new();
            while let Ok(Some(chunk)) = answer.chunk().await {
                read += &String::from_utf8_lossy(&chunk);
                while let Some((event, rest)) = read.split_once("\n\n") {
                    take(event, &tell);
                    read = rest.to_owned();
                }
            }
        });
        Ok(Heard { state, listening })
    }
}

fn take(event: &str, tell: &watch::Sender<State>) {
    let Some((_, data)) = event.split_once("data: ") else {
        return;
    };
    let data: Value = serde_json::from_str(data).unwrap_or_default();
    let op = data["last"].as_u64().unwrap_or(0);
    tell.send_modify(|state| {
        state.events += 1;
        if op > state.last_op {
            (state.last_op, state.came) = (op, Instant::now());
        }
    });
}

impl Heard {
    /// The last op of the newest event.
    pub(super) fn last_op(&self) -> u64 {
        self.state.borrow().last_op
    }

    /// Time at which an event with this op, or a later one, came.
    pub(super) async fn came(&self, op: u64) -> Result<Instant> {
        let mut state = self.state.clone();
        let came = state.wait_for(|state| state.last_op >= op);
        let came = tokio::time::timeout(TIMEOUT, came).await;
        Ok(came.context("an event does not come")??.came)
    }

    /// Stops listening. Returns the number of events.
    pub(super) fn stop(self) -> u64 {
        self.listening.abort();
        self.state.borrow().events
    }
}
