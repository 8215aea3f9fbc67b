//! The thread that has the connection to the cluster, and asks when it is asked.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use bus::{BusError, BusSettings, connect_once, random_id};
use bus_schemas::subject::Subjects;
use client_session::{ProgramSettings, block_signals, without_signals};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use crate::ask::{AskError, Asker};
use crate::snapshot::DeviceState;

/// How much less than its asker the thread waits, so that its word about why comes in time.
const EARLIER: Duration = Duration::from_millis(100);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    /// What the environment says of the cluster is missing or wrong.
    #[error("{0}")]
    Settings(String),
    /// There is no connection.
    #[error("{0}")]
    Connect(String),
    /// The system gives no thread.
    #[error("no thread: {0}")]
    Thread(std::io::Error),
    /// The cluster does not say.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// Nothing came in time.
    #[error("the cluster does not answer")]
    Silent,
}

type Answer = Result<Vec<DeviceState>, WatchError>;

/// A question: until when it may take, and where the answer goes. One that waited for the one before has less
/// time, or that would be late for all that follow.
pub(crate) struct Question(Instant, SyncSender<Answer>);

/// The thread; it ends when this is dropped.
pub(crate) struct Watcher {
    questions: UnboundedSender<Question>,
}

impl Watcher {
    /// Starts the thread, which connects within `patience`.
    pub(crate) fn start(settings: ProgramSettings, patience: Duration) -> Result<Self, WatchError> {
        let (questions, asked) = unbounded_channel();
        let patience = patience.saturating_sub(EARLIER);
        let begin = || {
            let name = thread::Builder::new().name("warploom-nvml".into());
            name.spawn(move || run(&settings, patience, asked))
        };
        without_signals(begin).map_err(WatchError::Thread)?;
        Ok(Self { questions })
    }

    /// One that never answers as long as the other half lives.
    #[cfg(test)]
    pub(crate) fn silent() -> (Self, UnboundedReceiver<Question>) {
        let (questions, asked) = unbounded_channel();
        (Self { questions }, asked)
    }

    /// Asks, and waits for so long.
    pub(crate) fn ask(&self, patience: Duration) -> Answer {
        let (answer, answered) = sync_channel(1);
        let until = Instant::now() + patience.saturating_sub(EARLIER);
        let question = Question(until, answer);
        let closed = || WatchError::Connect("the connection is closed".into());
        self.questions.send(question).map_err(|_| closed())?;
        match answered.recv_timeout(patience) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => Err(WatchError::Silent),
            Err(RecvTimeoutError::Disconnected) => Err(closed()),
        }
    }
}

fn run(settings: &ProgramSettings, patience: Duration, questions: UnboundedReceiver<Question>) {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .on_thread_start(block_signals)
        .build();
    // Without one the questions' senders are dropped, which their askers see.
    if let Ok(runtime) = runtime {
        runtime.block_on(serve(settings, patience, questions));
        runtime.shutdown_background();
    }
}

/// Connects, and answers from then on.
async fn serve(
    settings: &ProgramSettings,
    patience: Duration,
    mut questions: UnboundedReceiver<Question>,
) {
    let subjects = Subjects::new(&settings.cluster);
    let wanted = BusSettings {
        url: settings.url.clone(),
        login: settings.login.clone(),
        name: format!("nvml-{:016x}", random_id()),
        inbox: subjects.tenant_inbox(&settings.tenant),
        pulse: Some(subjects.term(&settings.tenant)),
        patience: Some(patience),
    };
    let connected = timeout(patience, connect_once(&wanted)).await;
    let silent = |_| BusError::Unreachable {
        url: settings.url.clone(),
        detail: "it does not answer".into(),
    };
    let client = match connected.map_err(silent).and_then(|it| it) {
        // Nobody is to hear what becomes of it: the next answer says that.
        Ok((client, _)) => client,
        Err(why) => {
            let why = why.to_string();
            questions.close();
            while let Some(Question(_, answer)) = questions.recv().await {
                let _ = answer.send(Err(WatchError::Connect(why.clone())));
            }
            return;
        }
    };
    let mut asker = Asker::new(client, subjects, settings.tenant.clone());
    while let Some(Question(until, answer)) = questions.recv().await {
        let patience = until.saturating_duration_since(Instant::now());
        let found = asker.ask(patience).await;
        // An asker that waits no more has been told so.
        let _ = answer.send(found.map_err(WatchError::from));
    }
}
