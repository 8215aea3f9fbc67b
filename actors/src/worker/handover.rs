//! Blocks of the record that the worker keeps and hands over to later leaders. A leader on a
//! partitioned server stores nothing and reaches no candidate, but it reaches the workers that it
//! grants to. If it dies, they have the inputs that its grants were decided from.

use async_nats::{Client, Subscriber};
use bus_schemas::subject::Subjects;
use bus_schemas::{Incarnation, MessageError, Seal, UnstoredCopy, WIRE_VERSION, decode, encode};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use scheduler_leader_core::{HandedOver, Handover};

/// The worker's blocks and the connection to leaders.
struct KeptBlocks {
    client: Client,
    subjects: Subjects,
    kept: Handover,
}

/// Receives copies and seals, and answers the seals, until the connection ends.
///
/// # Errors
/// A subscription is refused.
pub(super) async fn serve(
    client: Client,
    subjects: Subjects,
    worker: Incarnation,
) -> Result<(), async_nats::SubscribeError> {
    let copies = client.subscribe(subjects.unstored_worker()).await?;
    let seals = client.subscribe(subjects.seal(worker)).await?;
    let blocks = KeptBlocks {
        client,
        subjects,
        kept: Handover::default(),
    };
    actix::spawn(blocks.run(copies, seals));
    Ok(())
}

impl KeptBlocks {
    async fn run(mut self, copies: Subscriber, seals: Subscriber) {
        let copies = copies.map(|message| (message.payload, false));
        let seals = seals.map(|message| (message.payload, true));
        let mut received = stream::select(copies, seals);
        while let Some((payload, is_seal)) = received.next().await {
            let handled = match is_seal {
                true => self.on_seal(&payload).await,
                false => self.on_copy(&payload),
            };
            if let Err(error) = handled {
                tracing::warn!(%error, "a leader's message about its record cannot be read");
            }
        }
    }

    fn on_copy(&mut self, payload: &Bytes) -> Result<(), MessageError> {
        let copy: UnstoredCopy<'_> = decode(payload)?;
        let bytes = payload.slice_ref(copy.bytes);
        let term = (copy.epoch, copy.leader);
        self.kept.receive(term, copy.stored, copy.number, bytes);
        Ok(())
    }

    async fn on_seal(&mut self, payload: &[u8]) -> Result<(), MessageError> {
        let seal: Seal = decode(payload)?;
        for HandedOver { block, stored } in self.kept.seal(seal.epoch) {
            let copy = encode(&UnstoredCopy {
                v: WIRE_VERSION,
                epoch: block.term.0,
                leader: block.term.1,
                stored,
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

    use bus_schemas::LeaderId;
    use test_cluster::TestBroker;

    use super::*;
    use crate::testing::connect;

    const WORKER: Incarnation = Incarnation(7);

    #[test]
    fn what_a_leader_lent_is_given_to_the_next_two() {
        actix::System::new().block_on(lent());
    }

    async fn lent() {
        let broker = TestBroker::start();
        let subjects = Subjects::new(&"test".parse().expect("a name"));
        let client = connect(&broker, &subjects).await;
        let mut given = client
            .subscribe(subjects.unstored())
            .await
            .expect("subscribed");
        let served = serve(client.clone(), subjects.clone(), WORKER).await;
        served.expect("it keeps");
        let lend = async |stored, number| {
            let copy = encode(&UnstoredCopy {
                v: WIRE_VERSION,
                epoch: 3,
                leader: LeaderId(1),
                stored,
                number,
                bytes: b"block",
            });
            let to = subjects.unstored_worker();
            client.publish(to, copy.into()).await.expect("published");
        };
        let seal = async |epoch| {
            let seal = Seal {
                v: WIRE_VERSION,
                epoch,
                leader: LeaderId(2),
                after: None,
                times: true,
            };
            let to = subjects.seal(WORKER);
            client
                .publish(to, encode(&seal).into())
                .await
                .expect("published");
        };
        let mut numbers = async || {
            let mut numbers = Vec::new();
            let timeout = Duration::from_millis(500);
            while let Ok(Some(message)) = tokio::time::timeout(timeout, given.next()).await {
                let copy: UnstoredCopy<'_> = decode(&message.payload).expect("a copy");
                numbers.push((copy.epoch, copy.stored, copy.number));
            }
            numbers
        };
        lend(4, 5).await;
        lend(4, 6).await;
        lend(5, 0).await;
        // The two subscriptions are not ordered.
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
