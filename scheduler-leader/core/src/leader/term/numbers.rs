//! Workers that come with the gpu number of a live worker. A device has one worker: the one that
//! came first stays, the other is told to take another number.

use bus_schemas::{GpuId, Incarnation};

use super::Term;
use crate::leader::context::Context;
use crate::leader::publisher::Leaving;

impl Term {
    /// Returns true if this worker may not join yet: it is new, and another has its number. It is
    /// told to leave once the other is heard. A silent one is declared lost, and the new one joins.
    pub(super) fn waits_for_number(&mut self, worker: Incarnation, cx: &mut Context<'_>) -> bool {
        let Some(member) = cx.members.get(worker) else {
            return false;
        };
        let known = self.streams.get(&worker).is_some() || self.placement.workers.contains(&worker);
        let owner = match known || member.obeys {
            true => None,
            false => self.owner(worker, member.gpu, cx),
        };
        let Some(owner) = owner else {
            self.rivals.remove(&worker);
            return false;
        };
        let since = *self.rivals.entry(worker).or_insert(cx.now);
        // A dead worker's last messages may still be on their way.
        let servers = cx.config.cluster_of.as_ref();
        let on_the_way = servers.map_or(cx.config.worker_back, |servers| servers.on_the_way);
        if cx
            .members
            .was_heard(owner, since.saturating_add(on_the_way))
        {
            self.publisher
                .leave(worker, Leaving::NumberTaken, cx.actions);
        }
        true
    }

    /// Another worker that has this number and does not leave.
    fn owner(&self, worker: Incarnation, gpu: GpuId, cx: &Context<'_>) -> Option<Incarnation> {
        let joined = self.placement.workers.iter().copied();
        let met = cx.members.incarnations().into_iter();
        let met = met.filter(|other| self.streams.get(other).is_some());
        let leaves = |other: Incarnation| {
            let said = cx.members.get(other).is_some_and(|it| it.draining);
            said || self.placement.leaving.contains(&other)
        };
        joined
            .chain(met)
            .filter(|other| *other != worker && self.number(*other, cx) == Some(gpu))
            .find(|other| !leaves(*other))
    }

    /// The workers that wait for this one's number.
    pub(super) fn rivals_of(
        &self,
        owner: Incarnation,
        cx: &Context<'_>,
    ) -> impl Iterator<Item = Incarnation> {
        let gpu = self.number(owner, cx);
        let rivals = self.rivals.keys().copied();
        rivals.filter(move |it| *it != owner && gpu.is_some() && self.number(*it, cx) == gpu)
    }

    /// The gpu number of a worker, if it is known.
    fn number(&self, worker: Incarnation, cx: &Context<'_>) -> Option<GpuId> {
        let heard = cx.members.get(worker).map(|member| member.gpu);
        heard.or_else(|| self.placement.gpu(worker))
    }
}
