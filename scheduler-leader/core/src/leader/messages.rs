//! The messages that a leader receives in its term.

use bus_schemas::subject::{Admin, LeaderSubject, ToLeader};
use bus_schemas::{
    AdmissionRequest, Alive, CloseRequest, Done, Drain, Failure, Hold, Incarnation, InputNumber,
    LeaderBeat, Measured, OpenAnswer, OpenRequest, Outcome, PlaceStatus, Refusal, SessionId,
    SessionsRequest, Status, StatusRequest, Tenant, TenantStatus, WIRE_VERSION, WorkerBeat,
    WorkerStatus, decode, encode,
};

use super::context::Context;
use super::event::{Action, TermEnd};
use super::record_times::Said;
use super::term::Term;
use crate::input::{Input, Rows};

impl Term {
    /// Handles a message that a leader hears.
    pub(super) fn message(
        &mut self,
        subject: &LeaderSubject,
        reply: Option<&str>,
        bytes: &[u8],
        cx: &mut Context<'_>,
    ) -> Option<TermEnd> {
        match subject {
            LeaderSubject::Tenant(tenant, what) => self.tenant(tenant, *what, reply, bytes, cx),
            LeaderSubject::Done(worker) => return self.done(*worker, bytes, cx),
            LeaderSubject::WorkerBeat(worker) => {
                let beat: WorkerBeat = decode(bytes).ok()?;
                if beat.epoch >= self.publisher.epoch
                    && let Some(end) = self.refused(beat.epoch, beat.leader)
                {
                    return Some(end);
                }
                self.meet(*worker, cx);
            }
            LeaderSubject::Refusal(_) => {
                let refusal: Refusal = decode(bytes).ok()?;
                return self.refused(refusal.epoch, refusal.leader);
            }
            LeaderSubject::Measured(worker) => {
                let measured: Measured = decode(bytes).ok()?;
                self.learner.measured(*worker, &measured, self.learning);
            }
            LeaderSubject::LeaderBeat => {
                let beat: LeaderBeat = decode(bytes).ok()?;
                return (beat.epoch > self.publisher.epoch)
                    .then_some(TermEnd::Fenced { epoch: beat.epoch });
            }
            LeaderSubject::Admin(verb) => self.admin(*verb, reply, bytes, cx),
        }
        None
    }

    /// Returns true if every known worker is sealed.
    fn is_sealed(&self, cx: &Context<'_>) -> bool {
        self.streams.are_sealed() && !cx.members.expects_any()
    }

    /// Returns true if every known worker is sealed, and enough time has passed to hear all.
    fn is_settled(&self, cx: &Context<'_>) -> bool {
        let since = self.listening_since.max(cx.connected_at);
        self.is_sealed(cx) && cx.now >= since.saturating_add(cx.config.worker_silence)
    }

    fn tenant(
        &mut self,
        tenant: &Tenant,
        what: ToLeader,
        reply: Option<&str>,
        bytes: &[u8],
        cx: &mut Context<'_>,
    ) {
        let settled = self.is_settled(cx);
        let reply = reply.filter(|reply| self.publisher.subjects.is_inbound_of(tenant, reply));
        match what {
            ToLeader::Open => match decode::<OpenRequest>(bytes) {
                Ok(request) => {
                    let workers = self.scheduler.has_workers();
                    let clients = &mut self.clients;
                    let input = clients.open(tenant, request, reply, workers, &self.publisher, cx);
                    self.apply_some(input, cx);
                }
                Err(error) => self.refuse_open(reply, error.into(), cx),
            },
            ToLeader::Close => match decode::<CloseRequest>(bytes) {
                Ok(request) => self.close(Some(tenant), &request, reply, cx),
                Err(error) => self.refuse_close(reply, error.into(), cx),
            },
            ToLeader::Alive => {
                if let Ok(alive) = decode::<Alive>(bytes) {
                    let lost = &self.placement.lost;
                    self.clients
                        .alive(tenant, &alive, (settled, lost), &self.publisher, cx);
                }
            }
            ToLeader::Devices => self.devices(tenant, bytes, reply, cx),
            ToLeader::Intent(session) => {
                self.stray_intent((tenant, session), bytes, settled, cx);
            }
        }
    }

    /// Handles an intent of a session without a queue: the session may go on from the previous
    /// term.
    fn stray_intent(
        &mut self,
        whose: (&Tenant, SessionId),
        bytes: &[u8],
        settled: bool,
        cx: &mut Context<'_>,
    ) {
        let (tenant, session) = whose;
        if let Some(opening) = self.resumed.take_of(tenant, session) {
            self.resume(opening, cx);
            let bytes = bytes.to_vec();
            cx.actions.push(Action::QueueIntent { session, bytes });
            return;
        }
        if !self.streams.are_sealed() {
            self.resumed.keep(tenant, session, bytes);
        }
        let sure = (settled, self.placement.lost.as_slice());
        self.clients.stray(whose, sure, &self.publisher, cx.actions);
    }

    fn refuse_open(&self, reply: Option<&str>, failure: Failure, cx: &mut Context<'_>) {
        if let Some(reply) = reply {
            let answer = OpenAnswer::refusal(failure);
            self.publisher
                .publish(reply.into(), encode(&answer), cx.actions);
        }
    }

    fn refuse_close(&self, reply: Option<&str>, failure: Failure, cx: &mut Context<'_>) {
        if let Some(reply) = reply {
            self.publisher
                .ended(Ok(&reply.into()), 0, &failure, cx.actions);
        }
    }

    fn close(
        &mut self,
        tenant: Option<&Tenant>,
        request: &CloseRequest,
        reply: Option<&str>,
        cx: &mut Context<'_>,
    ) {
        let sure = (self.is_settled(cx), self.placement.lost.as_slice());
        let (publisher, actions) = (&self.publisher, &mut *cx.actions);
        let input = self
            .clients
            .close(tenant, request, reply, sure, publisher, actions);
        self.apply_some(input, cx);
    }

    fn apply_some(&mut self, input: Option<Input>, cx: &mut Context<'_>) {
        if let Some(input) = input {
            self.apply(input, cx);
        }
    }

    /// Handles a worker's report of its accepted and done positions.
    fn done(&mut self, worker: Incarnation, bytes: &[u8], cx: &mut Context<'_>) -> Option<TermEnd> {
        // Reads from distant memory are waited for together, and while the message is decoded.
        std::hint::black_box(self.streams.fetch(&worker) ^ self.scheduler.fetch_worker(worker));
        let done: Done<'_> = decode(bytes).ok()?;
        if done.epoch > self.publisher.epoch {
            return Some(TermEnd::Fenced { epoch: done.epoch });
        }
        cx.members.seen(cx.now, worker);
        let stream = self.streams.get_mut(&worker)?;
        if !stream.sealed || done.epoch != self.publisher.epoch {
            return None;
        }
        stream.accept(cx.now, done.accepted, done.chain, cx.config);
        let (reports, known) = stream.new_reports(cx.now, done.first, &done.reports, cx.config);
        self.clients.accepted(worker, stream, &self.publisher, cx);
        if !reports.is_empty() {
            let closing = reports
                .iter()
                .position(|report| report.outcome == Outcome::Closed);
            let behind = closing.map(|at| (reports.len() - 1 - at) as u64);
            let input = Input::Done {
                incarnation: worker,
                reports: Rows(reports),
            };
            self.apply_timed(input, Said::new(done.times, known), cx);
            if let (Some(behind), Some(stream)) = (behind, self.streams.get_mut(&worker)) {
                // Inputs fed while leaving are not recorded: the successor learns of them by a
                // seal.
                let input = match self.leaving.is_some() {
                    true => InputNumber::MAX,
                    false => self.scheduler.input(),
                };
                stream.closed(behind, input);
            }
        }
        self.received(worker, &done, cx);
        self.faults(worker, &done, cx);
        None
    }

    /// Feeds the received ops of doubted sessions, if they are news.
    fn received(&mut self, worker: Incarnation, done: &Done<'_>, cx: &mut Context<'_>) {
        for row in done.received.iter() {
            let session = self.scheduler.session(row.session);
            let doubted = session.is_some_and(|session| {
                session.incarnation == worker && session.doubted && row.received > session.received
            });
            if doubted {
                let (session, received) = (row.session, row.received);
                self.apply(Input::Received { session, received }, cx);
            }
        }
    }

    fn faults(&mut self, worker: Incarnation, done: &Done<'_>, cx: &mut Context<'_>) {
        for fault in done.session_faults() {
            let (session, op, code) = (fault.session, fault.op, fault.failure.code);
            let view = self.scheduler.session(session);
            let Some(view) = view.filter(|view| view.incarnation == worker) else {
                continue;
            };
            let words = fault.failure.brief();
            let is_first = self.clients.record_fault(session);
            if !view.closing {
                self.clients.failed(session, fault.failure);
            }
            // A program may end right behind the work that failed. Of a session that closes, a
            // fault decides nothing.
            if is_first || !view.closing {
                self.apply_timed(Input::Fault { session, op, code }, Said::words(&words), cx);
            }
        }
    }

    fn admin(&mut self, verb: Admin, reply: Option<&str>, bytes: &[u8], cx: &mut Context<'_>) {
        match verb {
            Admin::Status if decode::<StatusRequest>(bytes).is_ok() => {}
            Admin::Status => return,
            Admin::Hold => match decode::<Hold>(bytes) {
                Ok(hold) => self.hold(hold.held, cx),
                Err(_) => return,
            },
            Admin::Drain => match decode::<Drain>(bytes) {
                Ok(drain) if cx.members.get(drain.incarnation).is_some() => {
                    self.drain(drain.incarnation, drain.draining, cx);
                }
                // The answer is the status, which does not name the worker.
                Ok(_) => {}
                Err(_) => return,
            },
            Admin::Kill => {
                match decode::<CloseRequest>(bytes) {
                    Ok(request) => self.close(None, &request, reply, cx),
                    Err(error) => self.refuse_close(reply, error.into(), cx),
                }
                return;
            }
            Admin::Sessions => {
                if let (Ok(request), Some(reply)) = (decode::<SessionsRequest>(bytes), reply) {
                    let mut page = self.scheduler.session_page(&request);
                    page.partial = !self.is_settled(cx);
                    self.publisher
                        .publish(reply.into(), encode(&page), cx.actions);
                }
                return;
            }
            Admin::Admission => {
                if let (Ok(request), Some(reply)) = (decode::<AdmissionRequest>(bytes), reply) {
                    let answer = encode(&self.admission(request, cx.now));
                    self.publisher.publish(reply.into(), answer, cx.actions);
                }
                return;
            }
        }
        if let Some(reply) = reply {
            let status = encode(&self.status(cx));
            self.publisher.publish(reply.into(), status, cx.actions);
        }
    }

    /// The status of the cluster.
    fn status(&self, cx: &Context<'_>) -> Status {
        let worker = |view: crate::scheduler::WorkerView| {
            let member = cx.members.get(view.incarnation);
            let stream = self.streams.get(&view.incarnation);
            WorkerStatus {
                incarnation: view.incarnation,
                gpu: view.gpu,
                device: member
                    .map(|member| member.device.clone())
                    .unwrap_or_default(),
                sessions: view.sessions,
                granted: view.granted,
                accepted: stream.map_or(0, |stream| stream.accepted),
                chain: stream.map(|stream| stream.chain).unwrap_or_default(),
                outstanding_ns: view.outstanding_ns.iter().sum(),
                lost: false,
                draining: view.draining || view.cordoned,
            }
        };
        let tenant = |view: crate::scheduler::TenantView| {
            let settings = view.settings?;
            Some(TenantStatus {
                attainment: self.attainments.of(cx.now, &view.tenant),
                tenant: view.tenant,
                settings,
                sessions: view.sessions,
                queued: view.queued,
                granted: view.granted,
            })
        };
        Status {
            v: WIRE_VERSION,
            epoch: self.publisher.epoch,
            leader: self.publisher.leader,
            input: self.scheduler.input(),
            recorded: self.recorder.recorded(),
            global: self.scheduler.global(),
            held: self.scheduler.held(),
            partial: !self.is_sealed(cx),
            workers: self.scheduler.workers().into_iter().map(worker).collect(),
            places: self.scheduler.workers().into_iter().map(place).collect(),
            tenants: self
                .scheduler
                .tenants()
                .into_iter()
                .filter_map(tenant)
                .collect(),
            settings: Some(self.scheduler.settings().clone()),
            profile: Some(self.scheduler.profile(!self.learning)),
            stores: cx.stores.to_vec(),
            lost: self.missed(cx),
        }
    }
}

/// The facts that placement uses for a worker's sessions.
fn place(view: crate::scheduler::WorkerView) -> PlaceStatus {
    PlaceStatus {
        group: view.report.group,
        exclusive: view.report.exclusive,
        capacity: view.capacity,
        free: view.free,
        busy: view.busy,
    }
}
