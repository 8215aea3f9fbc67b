//! Blocks of the record that are kept for the next leader. A leader whose server is cut off from the
//! others stores nothing and reaches no candidate, but it reaches the workers that it grants to: they
//! have what it granted by, if it dies.

use async_nats::{Client, Subscriber};
use bus_schemas::subject::Subjects;
use bus_schemas::{Epoch, Incarnation, MessageError, Seal, WIRE_VERSION, decode, encode};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use scheduler_leader_core::Unstored;

/// What this worker keeps.
struct Blocks {
    client: Client,
    subjects: Subjects,
    kept: Unstored,
    /// The last two epochs whose leaders were given everything before them.
    given: [Epoch; 2],
}

/// Keeps blocks, for as long as somebody else holds the connection.
///
/// # Errors
/// Where a subscription is refused.
pub(super) async fn keep(
    client: Client,
    subjects: Subjects,
    worker: Incarnation,
) -> Result<(), async_nats::SubscribeError> {
    let told = client.subscribe(subjects.unstored_worker()).await?;
    let sealed = client.subscribe(subjects.seal(worker)).await?;
    let blocks = Blocks {
        client,
        subjects,
        kept: Unstored::default(),
        given: [0; 2],
    };
    actix::spawn(blocks.serve(told, sealed));
    Ok(())
}

impl Blocks {
    async fn serve(mut self, told: Subscriber, sealed: Subscriber) {
        let told = told.map(|message| (message.payload, false));
        let sealed = sealed.map(|message| (message.payload, true));
        let mut heard = stream::select(told, sealed);
        while let Some((payload, is_seal)) = heard.next().await {
            let heard = match is_seal {
                true => self.sealed(&payload).await,
                false => self.told(&payload),
            };
            if let Err(error) = heard {
                tracing::warn!(%error, "what a leader says of its record cannot be read");
            }
        }
    }

    fn told(&mut self, payload: &Bytes) -> Result<(), MessageError> {
        let copy: bus_schemas::Unstored<'_> = decode(payload)?;
        let bytes = payload.slice_ref(copy.bytes);
        let reign = (copy.epoch, copy.leader);
        self.kept.hear(reign, copy.stored, copy.number, bytes);
        Ok(())
    }

    /// A leader seals: it is given what is kept of those before it, but for what two were given already.
    async fn sealed(&mut self, payload: &[u8]) -> Result<(), MessageError> {
        let seal: Seal = decode(payload)?;
        let [before, last] = self.given;
        if seal.epoch <= last {
            return Ok(());
        }
        self.kept.forget_before(before);
        self.given = [last, seal.epoch];
        for block in self.kept.before(seal.epoch) {
            let copy = encode(&bus_schemas::Unstored {
                v: WIRE_VERSION,
                epoch: block.reign.0,
                leader: block.reign.1,
                stored: self.kept.stored_through(block.reign),
                number: block.number,
                bytes: &block.bytes,
            });
            let to = self.subjects.unstored();
            if self.client.publish(to, copy.into()).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use broker::testing::TestBroker;
    use bus_schemas::{LeaderId, Unstored as Copy};

    use super::*;

    const WORKER: Incarnation = Incarnation(7);

    #[test]
    fn what_a_leader_lent_is_given_to_the_next_two() {
        actix::System::new().block_on(lent());
    }

    async fn lent() {
        let broker = TestBroker::start();
        let subjects = Subjects::new(&"test".parse().expect("a name"));
        let login = broker.credentials().cluster_user.clone().expect("a login");
        let client = async_nats::ConnectOptions::with_user_and_password(login.user, login.password)
            .connect(broker.url())
            .await
            .expect("it connects");
        let mut given = client.subscribe(subjects.unstored()).await.expect("heard");
        let kept = keep(client.clone(), subjects.clone(), WORKER).await;
        kept.expect("it keeps");
        let lend = async |stored, number| {
            let copy = encode(&Copy {
                v: WIRE_VERSION,
                epoch: 3,
                leader: LeaderId(1),
                stored,
                number,
                bytes: b"block",
            });
            let to = subjects.unstored_worker();
            client.publish(to, copy.into()).await.expect("said");
        };
        let seal = async |epoch| {
            let seal = Seal {
                v: WIRE_VERSION,
                epoch,
                leader: LeaderId(2),
                after: None,
            };
            let to = subjects.seal(WORKER);
            client
                .publish(to, encode(&seal).into())
                .await
                .expect("said");
        };
        let mut numbers = async || {
            let mut numbers = Vec::new();
            let patience = Duration::from_millis(500);
            while let Ok(Some(message)) = tokio::time::timeout(patience, given.next()).await {
                let copy: Copy<'_> = decode(&message.payload).expect("a copy");
                numbers.push((copy.epoch, copy.stored, copy.number));
            }
            numbers
        };
        lend(4, 5).await;
        lend(4, 6).await;
        lend(5, 0).await;
        // Two subscriptions: one does not wait for the other.
        assert_eq!(numbers().await, []);
        seal(3).await;
        assert_eq!(numbers().await, [], "it has them itself");
        seal(4).await;
        seal(4).await;
        assert_eq!(numbers().await, [(3, 5, 6)], "once");
        seal(5).await;
        assert_eq!(numbers().await, [(3, 5, 6)], "the one before may have died");
        seal(6).await;
        assert_eq!(numbers().await, []);
    }
}
