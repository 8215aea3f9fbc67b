//! Waiting without a runtime.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tokio::task::unconstrained;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static WAKER: Waker = Waker::from(Arc::new(Unpark(thread::current())));
}

/// Wakes a thread that has lost its thread-local values, and with them its handle: one that runs
/// the exit handlers of its process.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    rings: Condvar,
}

impl Bell {
    fn wait(&self, patience: Option<Duration>) {
        let silent = |rung: &mut bool| !*rung;
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        *match patience {
            None => self
                .rings
                .wait_while(rung, silent)
                .unwrap_or_else(PoisonError::into_inner),
            Some(patience) => {
                let waited = self.rings.wait_timeout_while(rung, patience, silent);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        } = false;
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.rings.notify_one();
    }
}

/// Runs a future of this crate on the calling thread, which sleeps while it waits. The thread may
/// belong to a runtime: its budget, which only the runtime renews, is left alone.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(unconstrained(future));
    loop {
        if let Some(output) = wait(future.as_mut(), None) {
            return output;
        }
    }
}

/// The same until a deadline.
pub fn block_until<F: Future>(future: F, deadline: Instant) -> Option<F::Output> {
    wait(pin!(unconstrained(future)), Some(deadline))
}

fn wait<F: Future>(mut future: Pin<&mut F>, deadline: Option<Instant>) -> Option<F::Output> {
    let mut run = |waker: &Waker, sleep: &dyn Fn(Option<Duration>)| {
        let mut context = Context::from_waker(waker);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return Some(output);
            }
            let left = deadline.map(|it| it.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            sleep(left);
        }
    };
    match WAKER.try_with(Waker::clone) {
        Ok(waker) => run(&waker, &|left| match left {
            Some(left) => thread::park_timeout(left),
            None => thread::park(),
        }),
        Err(_) => {
            let bell = Arc::new(Bell::default());
            run(&Waker::from(Arc::clone(&bell)), &|left| bell.wait(left))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc::channel;

    use super::*;

    /// Waits when its thread's values are destroyed.
    struct Late(
        Cell<Option<tokio::sync::oneshot::Receiver<u32>>>,
        std::sync::mpsc::Sender<u32>,
    );

    impl Drop for Late {
        fn drop(&mut self) {
            let answer = self.0.take().map(block_on);
            let _ = self.1.send(answer.and_then(Result::ok).unwrap_or(0));
        }
    }

    thread_local! {
        static LATE: Cell<Option<Late>> = const { Cell::new(None) };
    }

    #[test]
    fn a_thread_that_has_lost_its_values_still_waits() {
        let (told, heard) = channel();
        let (send, receive) = tokio::sync::oneshot::channel();
        let thread = thread::spawn(move || {
            // Destroyed in the order of their first use, last used first: this one after WAKER.
            LATE.set(Some(Late(Cell::new(Some(receive)), told)));
            block_on(std::future::ready(()));
        });
        thread::sleep(Duration::from_millis(20));
        send.send(7).expect("it waits");
        assert_eq!(heard.recv(), Ok(7));
        thread.join().expect("it ends");
    }
}
