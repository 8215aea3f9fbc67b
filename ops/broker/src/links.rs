//! Links that can be cut: a proxy before every route, for tests of what a broken network does.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::Routes;

/// How long a read waits before it is looked whether the link is cut or gone.
const LOOK: Duration = Duration::from_millis(20);
const CHUNK: usize = 64 << 10;

#[derive(Debug, Default)]
struct State {
    cut: AtomicBool,
    gone: AtomicBool,
}

impl State {
    /// Waits while the link is cut; false once it is gone.
    fn passes(&self) -> bool {
        while self.cut.load(Ordering::Relaxed) && !self.gone.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
        }
        !self.gone.load(Ordering::Relaxed)
    }
}

/// A port on 127.0.0.1 that leads to another. While it is cut, connections stay and nothing moves
/// on them, in neither direction, as where a cable is pulled.
#[derive(Debug)]
pub struct Link {
    port: u16,
    state: Arc<State>,
}

impl Link {
    /// A link to `target`, not cut.
    ///
    /// # Errors
    /// Where there is no port or thread for it.
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
                // Who cannot be reached is no link's affair: the connection is closed.
                let _ = join(near, target, &theirs);
            }
        })?;
        Ok(Link { port, state })
    }

    /// The port that leads there.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts it, or mends it.
    pub fn cut(&self, cut: bool) {
        self.state.cut.store(cut, Ordering::Relaxed);
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
            // Either end may go at any time.
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
        to.write_all(&bytes[..read])?;
    }
    Ok(())
}

/// The links between all servers of a broker.
#[derive(Debug)]
pub struct Links {
    /// From server `i` to server `j`, in row `i`, column `j`.
    links: Vec<Vec<Link>>,
}

impl Links {
    /// Puts a link before every route.
    ///
    /// # Errors
    /// Where there is no port or thread for one.
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

    /// Cuts a server off from all others, or mends that. Its clients still reach it.
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
