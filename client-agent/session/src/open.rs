//! Asking the leader for a session.

use std::time::Duration;

use async_nats::{Client, Request, RequestErrorKind, Subscriber};
use bus_schemas::subject::{Subjects, ToLeader};
use bus_schemas::{
    Code, Failure, OpenAnswer, OpenRequest, Opened, Tenant, WIRE_VERSION, decode, encode,
};
use tokio::time::Instant;

use crate::error::{ClientError, refused};

/// Time after which an unanswered open request is sent again.
const ASK: Duration = Duration::from_millis(500);
/// Pause before a repeated request.
const PAUSE: Duration = Duration::from_millis(20);
/// The same pause if the leader has no place: one becomes free with a new worker, or when other
/// sessions end.
const NO_PLACE: Duration = Duration::from_millis(100);

/// Factor of the patience if a leader hears the request but does not answer. On an overloaded
/// machine it answers late; if it died, another takes over.
const LATE: u32 = 4;

/// The parameters of a request for sessions.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The tenant.
    pub tenant: Tenant,
    /// Name of the connection at the broker.
    pub connection: String,
    /// A unique number: the request may be repeated, and means one session.
    pub nonce: u64,
    /// Number of devices, each on another worker: all or none.
    pub devices: u32,
    /// Time to keep asking; four times as long if a leader hears the request and is late.
    pub patience: Duration,
}

/// Asks until there are sessions on as many devices as requested, or a reason why there will be
/// none. Each session comes with the subscription to all of its messages.
///
/// # Errors
/// The leader's refusal; [`ClientError::Connect`] if the subscription cannot be made.
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

/// Asks until there are sessions, or a reason why there will be none.
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
                // There may be a place soon, for example in a cluster that is starting; any other
                // refusal is final.
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
