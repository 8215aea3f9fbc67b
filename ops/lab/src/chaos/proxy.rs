//! A link to a broker that can be cut and slowed: a TCP proxy of our own, on a thread of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Bytes that are passed on at a time.
const CHUNK: usize = 64 << 10;

/// How a link is.
#[derive(Debug)]
struct State {
    /// True while nothing gets through.
    cut: watch::Sender<bool>,
    /// What is passed on is late by so many milliseconds.
    late_ms: AtomicU64,
}

/// A link: whoever connects to its address reaches the broker behind it.
#[derive(Debug, Clone)]
pub(super) struct Link {
    address: SocketAddr,
    state: Arc<State>,
}

impl Link {
    /// The URL to connect to.
    #[must_use]
    pub(super) fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Ends every connection and takes no other, until it is joined.
    pub(super) fn cut(&self) {
        self.state.cut.send_replace(true);
    }

    /// Lets connections through again.
    pub(super) fn join(&self) {
        self.state.cut.send_replace(false);
    }

    /// What is passed on is late by this from now on; zero is not at all.
    pub(super) fn delay(&self, late: Duration) {
        let ms = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
        self.state.late_ms.store(ms, Ordering::Relaxed);
    }
}

/// The thread that carries all links. It ends with the process.
#[derive(Debug)]
pub(super) struct Proxy {
    links: std::sync::mpsc::Receiver<std::io::Result<Link>>,
    wanted: tokio::sync::mpsc::UnboundedSender<u16>,
}

impl Proxy {
    /// Starts the thread.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start() -> Result<Self> {
        let (wanted, mut wants) = tokio::sync::mpsc::unbounded_channel();
        let (made, links) = std::sync::mpsc::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        std::thread::Builder::new()
            .name("chaos-links".into())
            .spawn(move || {
                runtime.block_on(async {
                    while let Some(port) = wants.recv().await {
                        if made.send(open(port).await).is_err() {
                            return;
                        }
                    }
                });
            })?;
        Ok(Self { links, wanted })
    }

    /// A new link to the broker on this port of this host.
    ///
    /// # Errors
    /// When no port is free.
    pub(super) fn link(&self, port: u16) -> Result<Link> {
        let gone = "the thread that carries links is gone";
        self.wanted.send(port).ok().context(gone)?;
        let link = self.links.recv().context(gone)?;
        link.context("making a link")
    }
}

async fn open(port: u16) -> std::io::Result<Link> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let link = Link {
        address: listener.local_addr()?,
        state: Arc::new(State {
            cut: watch::Sender::new(false),
            late_ms: AtomicU64::new(0),
        }),
    };
    tokio::spawn(serve(listener, port, Arc::clone(&link.state)));
    Ok(link)
}

async fn serve(listener: TcpListener, port: u16, state: Arc<State>) {
    // A listener fails for want of descriptors only, and may have some again soon.
    loop {
        match listener.accept().await {
            Ok((near, _)) if !*state.cut.borrow() => {
                tokio::spawn(carry(near, port, Arc::clone(&state)));
            }
            Ok(_) => {}
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Carries one connection until either end closes it or the link is cut.
async fn carry(near: TcpStream, port: u16, state: Arc<State>) {
    let Ok(far) = TcpStream::connect(("127.0.0.1", port)).await else {
        return;
    };
    // Whoever speaks NATS gathers what it sends itself; a socket that does not can only be slower.
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let mut cut = state.cut.subscribe();
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    tokio::select! {
        () = pass(near_read, far_write, &state) => {}
        () = pass(far_read, near_write, &state) => {}
        _ = cut.wait_for(|cut| *cut) => {}
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, state: &State) {
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = match from.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(read) => read,
        };
        let late = state.late_ms.load(Ordering::Relaxed);
        if late > 0 {
            tokio::time::sleep(Duration::from_millis(late)).await;
        }
        if to.write_all(&chunk[..read]).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener as Listener, TcpStream as Stream};

    use super::*;

    /// Answers what it is sent, for ever.
    fn echo() -> u16 {
        let listener = Listener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                std::thread::spawn(move || {
                    let mut bytes = [0; 64];
                    while let Ok(read) = stream.read(&mut bytes) {
                        if read == 0 || stream.write_all(&bytes[..read]).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        port
    }

    fn ask(stream: &mut Stream, what: &[u8]) -> std::io::Result<Vec<u8>> {
        stream.write_all(what)?;
        let mut answer = vec![0; what.len()];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    }

    #[test]
    fn a_link_carries_until_it_is_cut_and_again_when_it_is_joined() {
        let proxy = Proxy::start().unwrap();
        let link = proxy.link(echo()).unwrap();
        let mut stream = Stream::connect(link.address).unwrap();
        assert_eq!(ask(&mut stream, b"here").unwrap(), b"here");
        link.cut();
        assert!(ask(&mut stream, b"gone").is_err());
        let refused = Stream::connect(link.address).and_then(|mut stream| ask(&mut stream, b"no"));
        assert!(refused.is_err());
        link.join();
        let mut stream = Stream::connect(link.address).unwrap();
        assert_eq!(ask(&mut stream, b"again").unwrap(), b"again");
        link.delay(Duration::from_millis(30));
        let asked = std::time::Instant::now();
        assert_eq!(ask(&mut stream, b"late").unwrap(), b"late");
        assert!(asked.elapsed() >= Duration::from_millis(60), "both ways");
    }
}
