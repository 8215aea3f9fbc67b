//! Asking the leader for a session.

use std::time::Duration;

use async_nats::{Client, Request, Subscriber};
use bus_schemas::subject::{Subjects, ToLeader};
use bus_schemas::{
    Code, Failure, OpenAnswer, OpenRequest, Opened, Tenant, WIRE_VERSION, decode, encode,
};
use tokio::time::Instant;

use crate::error::ClientError;

/// How long one open request is waited for before it is asked again.
const ASK: Duration = Duration::from_millis(500);
/// Pause before asking again.
const PAUSE: Duration = Duration::from_millis(20);

/// Who asks for a session, and how long.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The tenant.
    pub tenant: Tenant,
    /// Name of the connection at the broker.
    pub connection: String,
    /// A number nobody else has: the request may be repeated, and means one session.
    pub nonce: u64,
    /// How long to ask.
    pub patience: Duration,
}

/// Asks until there is a session, or a reason why there will be none; answers with the
/// subscription to all that the session hears.
///
/// # Errors
/// What the leader answers; [`ClientError::Connect`] where the subscription cannot be made.
pub async fn open(
    client: &Client,
    subjects: &Subjects,
    opening: &Opening,
) -> Result<(Opened, Subscriber), ClientError> {
    let request = encode(&OpenRequest {
        v: WIRE_VERSION,
        nonce: opening.nonce,
        connection: opening.connection.clone(),
    });
    let subject = subjects.to_leader(&opening.tenant, ToLeader::Open);
    let opened = ask(client, subject, request, opening.patience).await?;
    let heard = client
        .subscribe(subjects.session_hears(&opening.tenant, opened.session))
        .await
        .map_err(|error| ClientError::Connect(error.to_string()))?;
    Ok((opened, heard))
}

/// Asks for a session until there is one, or a reason why there will be none.
async fn ask(
    client: &Client,
    subject: String,
    request: Vec<u8>,
    patience: Duration,
) -> Result<Opened, ClientError> {
    let deadline = Instant::now() + patience;
    let mut last = Failure::new(Code::NoLeader, "no leader answered");
    while Instant::now() < deadline {
        let request = Request::new().payload(request.clone().into()).timeout(Some(
            ASK.min(deadline.saturating_duration_since(Instant::now())),
        ));
        if let Ok(message) = client.send_request(subject.clone(), request).await {
            let answer: OpenAnswer = match decode(&message.payload) {
                Ok(answer) => answer,
                Err(error) => return Err(ClientError::Refused(error.into())),
            };
            match (answer.opened, answer.failure) {
                (Some(opened), _) => return check(opened),
                (None, Some(failure)) => last = failure,
                (None, None) => last = Failure::new(Code::Malformed, "an empty answer"),
            }
            // A cluster that is starting has no worker yet; anything else is the answer.
            if !matches!(last.code, Code::NoLeader | Code::NoWorker) {
                return Err(ClientError::Refused(last));
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(ClientError::Refused(last))
}

fn check(opened: Opened) -> Result<Opened, ClientError> {
    if opened.window.is_valid() {
        return Ok(opened);
    }
    let detail = format!("{:x?} is no window", opened.window);
    Err(ClientError::Refused(Failure::new(Code::Protocol, detail)))
}
