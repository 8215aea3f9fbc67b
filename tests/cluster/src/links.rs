//! Links that can be cut and slowed, for tests of a broken network: a proxy before each route, or
//! before any other port.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use broker::Routes;

/// Timeout of a read, after which the link is checked for being cut or gone.
const LOOK: Duration = Duration::from_millis(20);
const CHUNK: usize = 64 << 10;

#[derive(Debug, Default)]
struct State {
    cut: AtomicBool,
    closed: AtomicBool,
    late_ms: AtomicU64,
    gone: AtomicBool,
}

impl State {
    /// True if connections end, now and until the link is opened again.
    fn ends(&self) -> bool {
        self.closed.load(Ordering::Relaxed) || self.gone.load(Ordering::Relaxed)
    }

    /// Waits while the link is cut; false once it is closed or gone.
    fn passes(&self) -> bool {
        while self.cut.load(Ordering::Relaxed) && !self.ends() {
            thread::sleep(LOOK);
        }
        !self.ends()
    }
}

/// A port on 127.0.0.1 that forwards to another. While it is cut, connections stay open and nothing
/// moves on them in either direction, as if a cable were pulled. While it is closed, every
/// connection ends and no new one is accepted.
#[derive(Debug)]
pub struct Link {
    port: u16,
    state: Arc<State>,
}

impl Link {
    /// A link to `target`, not cut.
    ///
    /// # Errors
    /// If there is no port or thread for it.
    pub fn to(target: u16) -> io::Result<Link> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(State::default());
        let theirs = Arc::clone(&state);
        thread::Builder::new().name("link".into()).spawn(move || {
            for near in listener.incoming().flatten() {
                if theirs.gone.load(Ordering::Relaxed) {
                    return;
                }
                if !theirs.ends() {
                    // An unreachable target is not the link's concern: the connection is closed.
                    let _ = join(near, target, &theirs);
                }
            }
        })?;
        Ok(Link { port, state })
    }

    /// The port of the link.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts the link, or mends it.
    pub fn cut(&self, cut: bool) {
        self.state.cut.store(cut, Ordering::Relaxed);
    }

    /// Closes the link, or opens it again.
    pub fn close(&self, closed: bool) {
        self.state.closed.store(closed, Ordering::Relaxed);
    }

    /// Sets the delay of forwarded data from now on; zero is no delay.
    pub fn delay(&self, late: Duration) {
        let ms = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
        self.state.late_ms.store(ms, Ordering::Relaxed);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.state.gone.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

fn join(near: TcpStream, target: u16, state: &Arc<State>) -> io::Result<()> {
    let far = SocketAddrV4::new(Ipv4Addr::LOCALHOST, target);
    let far = TcpStream::connect(far)?;
    for (from, to) in [(&near, &far), (&far, &near)] {
        from.set_nodelay(true)?;
        from.set_read_timeout(Some(LOOK))?;
        let (from, to, state) = (from.try_clone()?, to.try_clone()?, Arc::clone(state));
        thread::Builder::new().name("link".into()).spawn(move || {
            // Either end may close at any time.
            let _ = forward(&from, &to, &state);
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
        })?;
    }
    Ok(())
}

fn forward(mut from: &TcpStream, mut to: &TcpStream, state: &State) -> io::Result<()> {
    let mut bytes = vec![0; CHUNK];
    while state.passes() {
        let read = match from.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock
                        | io::ErrorKind::TimedOut
                        | io::ErrorKind::Interrupted
                ) =>
            {
                continue;
            }
            Err(error) => return Err(error),
        };
        if !state.passes() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(state.late_ms.load(Ordering::Relaxed)));
        to.write_all(&bytes[..read])?;
    }
    Ok(())
}

/// The links between all servers of a broker.
#[derive(Debug)]
pub struct Links {
    /// The link from server `i` to server `j`, in row `i`, column `j`.
    links: Vec<Vec<Link>>,
}

impl Links {
    /// Puts a link before every route.
    ///
    /// # Errors
    /// If there is no port or thread for one.
    pub fn before(routes: &mut Routes) -> io::Result<Links> {
        let mut links = Vec::new();
        for row in &mut routes.dial {
            let mut across = Vec::new();
            for port in row {
                let link = Link::to(*port)?;
                *port = link.port();
                across.push(link);
            }
            links.push(across);
        }
        Ok(Links { links })
    }

    /// Cuts a server off from all others, or mends that. Clients can still reach it.
    pub fn cut_off(&self, server: usize, cut: bool) {
        for (from, row) in self.links.iter().enumerate() {
            for (to, link) in row.iter().enumerate() {
                if (from == server) != (to == server) {
                    link.cut(cut);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a server that echoes forever.
    fn echo() -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
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

    fn ask(stream: &mut TcpStream, what: &[u8]) -> std::io::Result<Vec<u8>> {
        stream.write_all(what)?;
        let mut answer = vec![0; what.len()];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    }

    #[test]
    fn a_link_carries_until_it_is_closed_and_again_when_it_is_opened() {
        let link = Link::to(echo()).unwrap();
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, link.port()));
        let mut stream = connect().unwrap();
        assert_eq!(ask(&mut stream, b"here").unwrap(), b"here");
        link.close(true);
        assert!(ask(&mut stream, b"gone").is_err());
        let refused = connect().and_then(|mut stream| ask(&mut stream, b"no"));
        assert!(refused.is_err());
        link.close(false);
        let mut stream = connect().unwrap();
        assert_eq!(ask(&mut stream, b"again").unwrap(), b"again");
        link.delay(Duration::from_millis(30));
        let asked = std::time::Instant::now();
        assert_eq!(ask(&mut stream, b"late").unwrap(), b"late");
        assert!(asked.elapsed() >= Duration::from_millis(60), "both ways");
    }
}
