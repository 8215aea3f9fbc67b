//! The thread that owns the connection to the cluster, and sends the requests.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use bus::{BusError, BusSettings, connect_once, random_id};
use bus_schemas::subject::Subjects;
use client_session::{ProgramSettings, block_signals, without_signals};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use crate::ask::{AskError, StatusClient};
use crate::snapshot::DeviceState;

/// The thread waits this much less than its caller, so that the reason of a failure arrives in
/// time.
const EARLIER: Duration = Duration::from_millis(100);

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    /// A setting of the cluster in the environment is missing or wrong.
    #[error("{0}")]
    Settings(String),
    /// There is no connection.
    #[error("{0}")]
    Connect(String),
    /// The system refused to start a thread.
    #[error("no thread: {0}")]
    Thread(std::io::Error),
    /// The cluster refused to answer.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// No answer came in time.
    #[error("the cluster does not answer")]
    Silent,
}

type Answer = Result<Vec<DeviceState>, WatchError>;

/// A request: its deadline, and the destination of the answer. A request that waited for the one
/// before has less time left; otherwise it would delay all later ones.
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

    /// A watcher that never answers while the other half lives.
    #[cfg(test)]
    pub(crate) fn silent() -> (Self, UnboundedReceiver<Question>) {
        let (questions, asked) = unbounded_channel();
        (Self { questions }, asked)
    }

    /// A watcher that answers each request with these devices.
    #[cfg(test)]
    pub(crate) fn answering(
        mut devices: impl FnMut() -> Vec<DeviceState> + Send + 'static,
    ) -> Self {
        let (questions, mut asked) = unbounded_channel();
        thread::spawn(move || {
            while let Some(Question(_, answer)) = asked.blocking_recv() {
                let _ = answer.send(Ok(devices()));
            }
        });
        Self { questions }
    }

    /// Asks, and waits for at most `patience`.
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
    // Without a runtime the requests' senders are dropped, which their callers notice.
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
        // Its later state is not reported; the next answer shows it.
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
    let mut client = StatusClient::new(client, subjects, settings.tenant.clone());
    while let Some(Question(until, answer)) = questions.recv().await {
        let patience = until.saturating_duration_since(Instant::now());
        let found = client.ask(patience).await;
        // A caller that no longer waits has already got its error.
        let _ = answer.send(found.map_err(WatchError::from));
    }
}
