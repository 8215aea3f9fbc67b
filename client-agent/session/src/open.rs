//! Asking the leader for a session.

use std::time::Duration;

use async_nats::{Client, Request, RequestErrorKind, Subscriber};
use bus_schemas::subject::{Subjects, ToLeader};
use bus_schemas::{
    Code, Failure, OpenAnswer, OpenRequest, Opened, Tenant, WIRE_VERSION, decode, encode,
};
use tokio::time::Instant;

use crate::error::{ClientError, refused};

/// How long one open request is waited for before it is asked again.
const ASK: Duration = Duration::from_millis(500);
/// Pause before asking again.
const PAUSE: Duration = Duration::from_millis(20);
/// The same where the leader knows of no place: it comes with a worker, or when others go.
const NO_PLACE: Duration = Duration::from_millis(100);

/// How many times its patience an opening lasts where a leader hears the question and does not answer: on a starved
/// machine it answers late, and where it died, another takes over.
const LATE: u32 = 4;

/// Who asks for a session, and how long.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The tenant.
    pub tenant: Tenant,
    /// Name of the connection at the broker.
    pub connection: String,
    /// A number nobody else has: the request may be repeated, and means one session.
    pub nonce: u64,
    /// Devices, each on another worker: all or none.
    pub devices: u32,
    /// How long to ask; four times as long where a leader hears the question and is late.
    pub patience: Duration,
}

/// Asks until there are sessions on as many devices as are wanted, or a reason why there will be
/// none; each comes with the subscription to all that the session receives.
///
/// # Errors
/// What the leader answers; [`ClientError::Connect`] where the subscription cannot be made.
pub async fn open(
    client: &Client,
    subjects: &Subjects,
    opening: &Opening,
) -> Result<Vec<(Opened, Subscriber)>, ClientError> {
    let request = encode(&OpenRequest {
        v: WIRE_VERSION,
        nonce: opening.nonce,
        connection: opening.connection.clone(),
        devices: opening.devices,
    });
    let subject = subjects.to_leader(&opening.tenant, ToLeader::Open);
    let devices = ask(client, subject, request, opening.patience).await?;
    if devices.len() != opening.devices as usize {
        let detail = "the leader does not know of several devices: it is older than this program";
        return Err(refused(Code::Protocol, detail));
    }
    let mut sessions = Vec::with_capacity(devices.len());
    for opened in devices {
        let messages = client
            .subscribe(subjects.session_inbound(&opening.tenant, opened.session))
            .await
            .map_err(|error| ClientError::Connect(error.to_string()))?;
        sessions.push((opened, messages));
    }
    Ok(sessions)
}

/// Asks for sessions until there are some, or a reason why there will be none.
async fn ask(
    client: &Client,
    subject: String,
    request: Vec<u8>,
    patience: Duration,
) -> Result<Vec<Opened>, ClientError> {
    let begun = Instant::now();
    let (mut deadline, latest) = (begun + patience, begun + LATE * patience);
    let mut last = Failure::new(Code::NoLeader, "no leader answered");
    while Instant::now() < deadline {
        let wait = ASK.min(deadline.saturating_duration_since(Instant::now()));
        let request = Request::new().payload(request.clone().into());
        let answer = client.send_request(subject.clone(), request.timeout(Some(wait)));
        match answer.await {
            Ok(message) => {
                let answer: OpenAnswer = match decode(&message.payload) {
                    Ok(answer) => answer,
                    Err(error) => return Err(ClientError::Refused(error.into())),
                };
                if answer.opened.is_some() {
                    return check(answer.devices());
                }
                let empty = || Failure::new(Code::Malformed, "an empty answer");
                last = answer.failure.unwrap_or_else(empty);
                // There may be a place soon, as in a cluster that is starting; anything else is the
                // answer.
                if last.code != Code::NoLeader && !last.code.is_placement() {
                    return Err(ClientError::Refused(last));
                }
            }
            Err(error) if error.kind() == RequestErrorKind::TimedOut => {
                deadline = latest.min(Instant::now() + patience);
            }
            Err(_) => {}
        }
        let pause = if last.code.is_placement() {
            NO_PLACE
        } else {
            PAUSE
        };
        tokio::time::sleep(pause).await;
    }
    Err(ClientError::Refused(last))
}

fn check(devices: Vec<Opened>) -> Result<Vec<Opened>, ClientError> {
    match devices.iter().find(|device| !device.window.is_valid()) {
        None => Ok(devices),
        Some(device) => {
            let detail = format!("{:x?} is no window", device.window);
            Err(refused(Code::Protocol, detail))
        }
    }
}
