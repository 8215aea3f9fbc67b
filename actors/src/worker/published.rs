//! Offers of copies that are answered from published weights.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bus_schemas::{ContentHash, SessionId, Tenant};
use bytes::Bytes;
use gpu_worker_core::content::{Audience, PublishedTensor, PublishedWeights};

use super::publications::{Publications, TensorName};
use crate::storage::Weights;

/// Offers that wait for tensors: of all tenants, and of one.
const WAITING: usize = 1_024;
const WAITING_OF_ONE: usize = 64;
/// A tensor that could not be had is not asked for again so soon.
const FAILED: Duration = Duration::from_secs(30);
/// How long an offer waits: its client, which asks again, would take a worker that says nothing for gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// An offer that waits for tensors.
struct Waiting {
    tenant: Tenant,
    session: SessionId,
    offer: Bytes,
    tensors: BTreeSet<TensorName>,
    since: Instant,
}

/// What is published, and who waits for it.
pub(super) struct Published {
    publications: Publications,
    weights: PublishedWeights,
    waiting: Vec<Waiting>,
    /// Tensors that were asked for.
    asked: BTreeSet<TensorName>,
    failed: BTreeMap<TensorName, Instant>,
}

impl Published {
    pub(super) fn new(publications: Publications) -> Self {
        Self {
            publications,
            weights: PublishedWeights::default(),
            waiting: Vec::new(),
            asked: BTreeSet::new(),
            failed: BTreeMap::new(),
        }
    }

    /// The tensor that has a chunk which was published to this tenant.
    pub(super) fn tensor(&self, tenant: &Tenant, hash: &ContentHash) -> Option<TensorName> {
        let place = self.weights.place(tenant, hash)?;
        let (weights, tensor) = place.object.split_once('/')?;
        Some(TensorName {
            weights: weights.into(),
            tensor: tensor.into(),
        })
    }

    /// Whether a tensor may be asked for: it did not fail just now.
    pub(super) fn may_come(&mut self, tensor: &TensorName) -> bool {
        self.failed.retain(|_, at| at.elapsed() < FAILED);
        !self.failed.contains_key(tensor)
    }

    /// An offer waits until these tensors are here; whether it does. It does not where too many wait, or
    /// when it has waited for long: what is not here by now, its client sends.
    pub(super) fn wait(
        &mut self,
        (tenant, session): (&Tenant, SessionId),
        offer: &Bytes,
        tensors: BTreeSet<TensorName>,
    ) -> bool {
        let mut waiting = self.waiting.iter();
        if let Some(again) = waiting.find(|it| it.session == session && it.offer == *offer) {
            return again.since.elapsed() < PATIENCE;
        }
        let own = self.waiting.iter().filter(|it| it.tenant == *tenant);
        if own.count() >= WAITING_OF_ONE || self.waiting.len() >= WAITING {
            return false;
        }
        for tensor in &tensors {
            if self.asked.insert(tensor.clone()) {
                self.publications.ask(tensor.clone());
            }
        }
        self.waiting.push(Waiting {
            tenant: tenant.clone(),
            session,
            offer: offer.clone(),
            tensors,
            since: Instant::now(),
        });
        true
    }

    /// This is published under a name now; none: nothing is.
    pub(super) fn changed(&mut self, name: &str, weights: Option<&Weights>) {
        let Some(weights) = weights else {
            return self.weights.withdraw(name);
        };
        let audience = match weights.public {
            true => Audience::All,
            false => Audience::Tenants(weights.tenants.iter().cloned().collect()),
        };
        let tensors = weights.tensors.iter().map(|tensor| PublishedTensor {
            object: format!("{name}/{}", tensor.object()).into(),
            hashes: tensor.chunks().collect(),
        });
        if !self.weights.publish(name, audience, tensors.collect()) {
            tracing::warn!(name, "more is published than a worker keeps track of");
        }
    }

    /// A session has ended.
    pub(super) fn forget(&mut self, session: SessionId) {
        self.waiting.retain(|it| it.session != session);
    }

    /// A tensor is here, or will not come: the offers that wait for nothing any more.
    pub(super) fn arrived(
        &mut self,
        tensor: &TensorName,
        here: bool,
    ) -> Vec<(Tenant, SessionId, Bytes)> {
        self.asked.remove(tensor);
        if !here {
            self.failed.insert(tensor.clone(), Instant::now());
        }
        for waiting in &mut self.waiting {
            waiting.tensors.remove(tensor);
        }
        let ready = self.waiting.extract_if(.., |it| it.tensors.is_empty());
        ready.map(|it| (it.tenant, it.session, it.offer)).collect()
    }
}
