//! A role served in a thread of this process.

use std::pin::Pin;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;

/// Completes when the role is asked to leave, or when its [`RoleThread`] is dropped.
pub type Asked = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The thread of a role. When it is dropped, the role is asked to leave, without waiting for it.
pub struct RoleThread<T> {
    asks: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> RoleThread<T> {
    /// Serves the role until it leaves.
    #[must_use]
    pub fn start(serve: impl FnOnce(Asked) -> T + Send + 'static) -> Self {
        let (asks, asked) = oneshot::channel::<()>();
        let asked = Box::pin(async {
            let _ = asked.await;
        });
        Self {
            asks: Some(asks),
            thread: Some(std::thread::spawn(move || serve(asked))),
        }
    }

    /// Asks the role to leave.
    pub fn ask(&mut self) {
        drop(self.asks.take());
    }

    /// Waits until the role has left; returns its result.
    ///
    /// # Panics
    /// If it has not left within `patience`, has been waited for before, or panicked itself.
    pub async fn left(&mut self, patience: Duration) -> T {
        let thread = self.thread.take().expect("it has not been waited for");
        let joined = tokio::task::spawn_blocking(|| thread.join());
        let joined = tokio::time::timeout(patience, joined).await;
        let joined = joined.unwrap_or_else(|_| panic!("the role is there after {patience:?}"));
        joined
            .expect("the waiting thread ends")
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
