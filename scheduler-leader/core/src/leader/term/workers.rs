//! A term's workers: met by their heartbeats, sealed, reported to the order, and lost.

use std::collections::BTreeSet;

use bus_schemas::{Epoch, Incarnation, LeaderId, SealPage, SealReply, decode};

use super::{LOST, Term, reply};
use crate::input::{Input, Rows};
use crate::leader::clients::Named;
use crate::leader::context::Context;
use crate::leader::event::TermEnd;
use crate::leader::grant_stream::{GrantStream, ToldResidency};
use crate::leader::publisher::Leaving;
use crate::time::Nanos;

/// Maximum number of workers in the placement.
const WORKERS: usize = 4_096;

impl Term {
    /// Handles a message of a worker: it is sealed, unless it already is.
    pub(in crate::leader) fn meet(&mut self, worker: Incarnation, cx: &mut Context<'_>) {
        if self.placement.lost.contains(&worker) {
            cx.members.remove(worker);
            self.publisher.lost(worker, cx.actions);
            return;
        }
        if self.waits_for_number(worker, cx) {
            return;
        }
        let subject = self.publisher.subjects.grants(worker);
        self.streams
            .meet(worker, || GrantStream::new(subject.into(), cx.now));
        self.ask_seal(worker, cx);
        self.report(worker, cx);
        self.tell_residency(worker, cx);
        if let Some(member) = cx.members.get(worker)
            && let Some(view) = self.scheduler.worker(worker)
            && view.draining != member.draining
        {
            let draining = member.draining;
            let incarnation = worker;
            self.apply(
                Input::Draining {
                    incarnation,
                    draining,
                },
                cx,
            );
            let input = self.scheduler.input();
            if let Some(stream) = self.streams.note_in(worker) {
                stream.leaves = draining.then_some(input);
            }
            // It may be gone before the next check, and its leader too.
            if self.placement.announced(worker, draining) {
                self.placement_changed = true;
                self.keep_placement(cx);
            }
        }
        if self.placement.drained.contains(&worker) {
            self.drained(worker, cx);
        }
        self.send_quotas(worker, cx);
        let stream = self.streams.get(&worker);
        // Its accepted grants were decided before: with this input, all of them are recorded.
        let recorded = self.recorder.recorded();
        if stream.is_some_and(|stream| stream.leaves.is_some_and(|input| input <= recorded)) {
            self.publisher.leave(worker, Leaving::Noted, cx.actions);
        }
    }

    /// Tells the order the report of a sealed worker, if it is news.
    fn report(&mut self, worker: Incarnation, cx: &mut Context<'_>) {
        let (Some(stream), Some(member)) = (self.streams.note_in(worker), cx.members.get(worker))
        else {
            return;
        };
        let report = &member.report;
        let due = match &stream.reported {
            None => true,
            Some((at, told)) => {
                let group = (&report.group, report.exclusive) != (&told.group, told.exclusive);
                group || (report != told && cx.now >= at.saturating_add(cx.config.report))
            }
        };
        if stream.sealed && due {
            stream.reported = Some((cx.now, report.clone()));
            let (incarnation, report) = (worker, report.clone());
            self.apply(
                Input::Report {
                    incarnation,
                    report,
                },
                cx,
            );
        }
    }

    /// Tells the order where the memory of a sealed worker's sessions is, if that is news.
    fn tell_residency(&mut self, worker: Incarnation, cx: &mut Context<'_>) {
        let stream = self.streams.get_mut(&worker);
        let Some(stream) = stream.filter(|stream| stream.sealed) else {
            return;
        };
        let Some(member) = cx.members.get(worker) else {
            return;
        };
        let Some(said) = &member.residency else {
            return;
        };
        let number = member.residencies;
        let returned = self.scheduler.returned_on(worker);
        // A repeated report is news only if a return has ended since the last one.
        if let Some(told) = &mut stream.residency
            && told.residency == *said
            && (told.number == number || told.returned == returned)
        {
            told.number = number;
            return;
        }
        stream.residency = Some(ToldResidency {
            residency: said.clone(),
            number,
            returned,
        });
        let input = Input::Residency {
            incarnation: worker,
            limit: said.limit,
            ns_per_mib: said.ns_per_mib,
            sessions: Rows(said.sessions.clone()),
        };
        self.apply(input, cx);
    }

    fn ask_seal(&mut self, worker: Incarnation, cx: &mut Context<'_>) {
        if let Some(stream) = self.streams.note_in(worker)
            && stream.wants_seal(cx.now, cx.config)
        {
            let (tail, reply) = (stream.tail(), reply(&self.inbox, worker));
            self.publisher.seal(worker, tail, reply, cx.actions);
        }
    }

    /// Handles the next page of the tail of a worker that is being sealed and has more than a
    /// message holds.
    fn seal_page(&mut self, worker: Incarnation, page: SealPage, cx: &mut Context<'_>) {
        let ours = (page.epoch, page.leader) == (self.publisher.epoch, self.publisher.leader);
        let stream = self.streams.get_mut(&worker).filter(|_| ours);
        if stream.is_some_and(|stream| stream.take_page(cx.now, &page)) {
            cx.members.seen(cx.now, worker);
            let input = Input::WorkerTail {
                incarnation: worker,
                grants: Rows(page.tail),
                named: Rows(page.named),
            };
            self.apply(input, cx);
            self.ask_seal(worker, cx);
        }
    }

    /// Handles a worker's answer to a seal.
    pub(in crate::leader) fn seal_reply(
        &mut self,
        worker: Incarnation,
        bytes: &[u8],
        cx: &mut Context<'_>,
    ) -> Option<TermEnd> {
        let reply: SealReply = decode(bytes).ok()?;
        if let Some(refusal) = reply.refused {
            return self.refused(refusal.epoch, refusal.leader);
        }
        if let Some(page) = reply.page {
            self.seal_page(worker, page, cx);
            return None;
        }
        let answer = reply.sealed?;
        let stream = self.streams.get_mut(&worker)?;
        let ours = (answer.epoch, answer.leader) == (self.publisher.epoch, self.publisher.leader);
        if stream.sealed || !ours {
            return None;
        }
        cx.members.seen(cx.now, worker);
        stream.seal(&answer);
        // If it goes while no candidate leads, the next leader must know.
        let gpu = cx.members.get(worker).map(|member| member.gpu);
        self.placement_changed |= self.placement.remember(worker, gpu, WORKERS);
        self.placement_changed |= self.placement.served(gpu);
        // Their ready ops must be announced again, or they are about to end.
        let at_work = answer.sessions.iter().filter(|it| it.received > it.done);
        at_work.for_each(|it| self.resumed.want(it.session));
        let faults: Vec<_> = answer.faults.clone();
        self.apply(
            Input::WorkerSealed {
                incarnation: worker,
                answer: Box::new(answer),
            },
            cx,
        );
        faults
            .into_iter()
            .for_each(|fault| self.clients.failed(fault.session, fault.failure));
        self.report(worker, cx);
        self.tell_residency(worker, cx);
        let draining = cx.members.get(worker).is_some_and(|member| member.draining);
        if draining || self.placement.drained.contains(&worker) {
            self.meet(worker, cx);
        }
        for input in self.clients.waiting_opens() {
            self.apply(input, cx);
        }
        None
    }

    /// The end of our term, if a message with this epoch and leader ends it.
    pub(in crate::leader) fn refused(&self, epoch: Epoch, leader: LeaderId) -> Option<TermEnd> {
        let ours = (self.publisher.epoch, self.publisher.leader);
        let above = epoch > ours.0 || (epoch == ours.0 && leader != ours.1);
        above.then_some(TermEnd::Fenced { epoch })
    }

    /// Handles the closed connection of a worker. With a single server it proves nothing soon after
    /// ours came back: the worker may look for us as we did for it. It proves little with a starved
    /// server: workers give it up and come back.
    pub(in crate::leader) fn worker_closed(&mut self, worker: Incarnation, cx: &mut Context<'_>) {
        let starved = cx.lateness.is_starved(cx.now, cx.config.stall);
        if cx.config.cluster_of.is_some() || (starved && cx.is_listening()) {
            cx.members.closed(cx.now, worker);
        } else if cx.is_listening() {
            self.lose(worker, cx);
        }
    }

    /// Workers that are silent, or did not come back after their connections were closed. If
    /// heartbeats are late, each has longer.
    pub(super) fn absent(&self, cx: &mut Context<'_>) -> Vec<Incarnation> {
        let (now, config, lateness) = (cx.now, cx.config, cx.lateness);
        let mut absent = Vec::new();
        if cx.is_listening() {
            let (silence, most) = (config.worker_silence, config.worker_silence_most);
            let silence = lateness.patience(now, silence, most);
            absent.extend(cx.members.silent(now.saturating_sub(silence)));
        }
        match &config.cluster_of {
            None if cx.is_listening() => {
                let back = config.worker_back;
                let patience = match lateness.is_starved(now, config.stall) {
                    true => config.worker_silence,
                    false => back,
                };
                absent.extend(cx.members.gone(now, back, |_| patience));
            }
            Some(servers) if !cx.is_cut_off(servers) => {
                let certain = cx.connected_at.saturating_add(config.grace);
                let patience = |closed| servers.moves(closed >= certain, now, lateness);
                absent.extend(cx.members.gone(now, servers.on_the_way, patience));
            }
            _ => {}
        }
        let servers = config.cluster_of.as_ref();
        if !servers.is_some_and(|servers| cx.is_cut_off(servers)) {
            let since = now.saturating_sub(config.worker_replaced);
            absent.extend(self.replaced(since, cx));
        }
        absent
    }

    /// Removes the workers that announced that they leave and have a closed connection: they have
    /// left. Returns true if others are about to.
    pub(super) fn bid_farewell(&mut self, cx: &mut Context<'_>) -> bool {
        let servers = cx.config.cluster_of.as_ref();
        let on_the_way = servers.map_or(cx.config.worker_back, |servers| servers.on_the_way);
        for worker in cx.members.gone(cx.now, on_the_way, |_| 0) {
            let stream = self.streams.get(&worker);
            if stream.is_some_and(|stream| stream.leaves.is_some()) {
                self.lose(worker, cx);
            }
        }
        self.streams.all().any(|stream| stream.leaves.is_some())
    }

    /// Workers that were not heard after `since` while a later start of theirs was: a device has
    /// one worker. A leader that never heard of the closed connection, nor of the worker itself,
    /// learns of it in this way.
    fn replaced(&self, since: Nanos, cx: &Context<'_>) -> Vec<Incarnation> {
        let mut silent = cx.members.silent(since);
        silent.retain(|worker| {
            let leaves = cx.members.get(*worker).is_some_and(|it| it.draining);
            let joined = self.placement.later_starts(*worker);
            let mut later = joined.chain(self.rivals_of(*worker, cx));
            !leaves && later.any(|other| cx.members.was_heard(other, since))
        });
        silent
    }

    /// The dead workers that clients name for their sessions and that no leader remembers. They
    /// died together with the leaders that knew them, before the store had their names. The proof
    /// is a heard later start of the device, or silence for the maximum time of a worker.
    pub(super) fn forgotten(&self, cx: &Context<'_>) -> BTreeSet<Incarnation> {
        let (now, config) = (cx.now, cx.config);
        let is_known = |worker| cx.members.get(worker).is_some() || cx.members.expects(worker);
        let named = self.clients.claims().named();
        let named: Vec<Named> = named.filter(|named| !is_known(named.worker)).collect();
        let servers = config.cluster_of.as_ref();
        if named.is_empty() || servers.is_some_and(|servers| cx.is_cut_off(servers)) {
            return BTreeSet::new();
        }
        let listened = cx.members.listened(now);
        let silence = (config.worker_silence, config.worker_silence_most);
        let silence = cx.lateness.patience(now, silence.0, silence.1);
        let all_are_known =
            self.streams.are_sealed() && !cx.members.expects_any() && listened >= silence;
        let replaced = config.worker_replaced;
        let served = cx.members.served(now.saturating_sub(replaced));
        let is_gone = |named: &Named| {
            let waited = listened.min(now.saturating_sub(named.since)) >= replaced;
            waited && (all_are_known || named.gpu.is_some_and(|gpu| served.contains(&gpu)))
        };
        let gone = named.into_iter().filter(is_gone);
        gone.map(|named| named.worker).collect()
    }

    /// Declares a worker lost, for good.
    pub(super) fn lose(&mut self, worker: Incarnation, cx: &mut Context<'_>) {
        if self.rivals.remove(&worker).is_some() {
            // It never joined.
            cx.members.remove(worker);
            return;
        }
        let expected = cx.members.expects(worker);
        let member = cx.members.remove(worker);
        if member.is_none() && !expected {
            return;
        }
        self.miss(worker, member.as_ref(), cx);
        self.placement.lose(worker, LOST);
        self.placement_changed = true;
        self.publisher.lost(worker, cx.actions);
        self.learner.lost(worker);
        let view = self.scheduler.worker(worker);
        let left =
            member.is_some_and(|member| member.draining) || view.is_some_and(|view| view.draining);
        self.workers_lost += u64::from(!left);
        let stream = self.streams.get(&worker).filter(|stream| stream.sealed);
        let (accepted, chain) =
            stream.map_or((0, None), |stream| (stream.accepted, Some(stream.chain)));
        self.apply(
            Input::WorkerLost {
                incarnation: worker,
                left,
                accepted,
                chain,
            },
            cx,
        );
        self.streams.remove(worker);
        let is_gone = |other| other == worker;
        self.clients.bereave(is_gone, &self.publisher, cx.actions);
    }

    /// Expects the workers of the previous leader: they are heard, or are lost.
    pub(in crate::leader) fn expect(&mut self, workers: &[Incarnation], cx: &mut Context<'_>) {
        for worker in workers {
            if self.placement.lost.contains(worker) {
                continue;
            }
            cx.members.expect(cx.now, *worker);
            if !self.placement.workers.contains(worker) {
                self.placement.workers.push(*worker);
            }
        }
    }
}
