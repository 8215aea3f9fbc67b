//! Copies that clients offer by the hashes of their chunks. The core decides the answers to offers; chunks come
//! from the stager and from the store of published weights.

use std::sync::Arc;

use actix::{Context, Handler};
use device::Chunk;
use gpu_worker_core::content::{Audience, PublishedTensor};
use gpu_worker_core::worker::{ArrivedChunks, Event, PublishedNews};

use super::actor::GpuWorker;
use super::publications::Publication;
use super::stager::{KeepJob, Kept};
use storage::StoredWeights;

impl Handler<Kept> for GpuWorker {
    type Result = ();

    fn handle(&mut self, kept: Kept, ctx: &mut Context<Self>) {
        self.worker.buffers().take_apart(kept.bytes);
        self.handle_event(Event::Chunks(kept.checked));
        self.settle(ctx);
    }
}

impl Handler<Publication> for GpuWorker {
    type Result = ();

    fn handle(&mut self, news: Publication, ctx: &mut Context<Self>) {
        match news {
            Publication::Changed(name, weights) => {
                let news = weights.map(|weights| news_of(&name, &weights));
                self.handle_event(Event::Published(&name, news));
            }
            Publication::Tensor(tensor, chunks) => {
                self.handle_event(Event::Tensor(&tensor, chunks));
            }
        }
        self.settle(ctx);
    }
}

impl GpuWorker {
    /// Checks and keeps the chunks of an offered transfer, of which all missing bytes have arrived.
    pub(super) fn keep_chunks(&mut self, arrived: ArrivedChunks<Arc<dyn Chunk>>) {
        let (session, transfer) = (arrived.session, arrived.transfer);
        let buffers = self.worker.buffers_mut();
        if let Some(bytes) = buffers.take_received(session, transfer) {
            self.stager.keep(KeepJob {
                bytes,
                arrived,
                keeper: Arc::clone(&self.keeper),
            });
        }
    }
}

fn news_of(name: &str, weights: &StoredWeights) -> PublishedNews {
    let audience = match weights.public {
        true => Audience::All,
        false => Audience::Tenants(weights.tenants.iter().cloned().collect()),
    };
    let tensors = weights.tensors.iter().map(|tensor| PublishedTensor {
        object: tensor.object(name).into(),
        hashes: tensor.chunks().collect(),
    });
    PublishedNews {
        audience,
        tensors: tensors.collect(),
    }
}
