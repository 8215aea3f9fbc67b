//! The messages that a hostile tenant forges: a pure function of a seed and of the tenant's knowledge of
//! others.

use bus_schemas::subject::{ToClient, ToLeader, ToWorker};
use bus_schemas::{MemoryStatusRequest, WIRE_VERSION, encode};

use super::forger::{Forged, Forger};

/// Word in a message's subject that identifies the message as the hostile tenant's.
pub(super) const MARK: &str = "forged";
/// Bytes of a huge message. Few messages are huge.
const HUGE: usize = 4 << 20;
const HUGE_IN: u32 = 2_000;
/// Messages of its own that it sends again.
const RECORDED: usize = 256;

impl Forger {
    /// Subjects that are not the tenant's to hear.
    pub(super) fn subscriptions(&self) -> Vec<String> {
        let root = self.root();
        let mut subjects: Vec<String> =
            [">", "wl.>", "$SYS.>", "$JS.>", "$KV.>", "_INBOX.>", "*.>"]
                .map(str::to_owned)
                .into();
        subjects
            .extend(["t.*.dn.>", "t.*.up.>", "s.>", "t.>"].map(|rest| format!("{root}.{rest}")));
        for other in &self.others {
            subjects.push(self.subjects.tenant_inbound(other));
            subjects.push(self.subjects.tenant_outbound(other));
        }
        subjects
    }

    fn root(&self) -> String {
        self.subjects.all().trim_end_matches(".>").to_owned()
    }

    /// A reply subject on which no answer may arrive.
    fn reply(&mut self) -> Option<String> {
        let (root, other, session) = (self.root(), self.other(), self.session());
        let to_client = |what| self.subjects.to_client(&other, session, what);
        let replies = [
            format!("{root}.s.{MARK}"),
            format!("{root}.s.l.beat"),
            format!("{root}.s.lost"),
            format!("{root}.t.{other}.dn.inbox.{MARK}"),
            format!("{root}.t.{other}.dn.{MARK}"),
            format!("{root}.t.{other}.up.l.close"),
            format!("{root}.t.{}.up.l.open", self.tenant),
            format!("$JS.API.STREAM.DELETE.{}", self.subjects.record_stream()),
            format!("$JS.API.STREAM.PURGE.KV_{}", self.subjects.state_bucket()),
            format!("$KV.{}.settings", self.subjects.state_bucket()),
            format!("$KV.{}.tenant.{MARK}", self.subjects.state_bucket()),
            "$SYS.REQ.SERVER.PING".into(),
            to_client(ToClient::Result),
            to_client(ToClient::Leader),
            format!("{root}.t.{}.dn.inbox.{MARK}", self.tenant),
        ];
        let some = self.random.below(4) > 0;
        self.pick(&replies).filter(|_| some)
    }

    /// A message on a subject that the tenant may publish to.
    pub(super) fn allowed(&mut self) -> Forged {
        if self.random.below(16) == 0
            && let Some(again) = self.pick(&self.sent.clone())
        {
            return again;
        }
        let (session, worker, tenant) = (self.session(), self.worker(), self.tenant.clone());
        let (subject, payload) = match self.random.below(12) {
            which @ 0..5 => {
                let (what, payload) = self.body_to_leader(which, session);
                (self.subjects.to_leader(&tenant, what), payload)
            }
            11 => {
                let after = Some(self.other());
                let v = WIRE_VERSION;
                let asked = encode(&MemoryStatusRequest { v, after });
                (self.subjects.tenant_memory(&tenant, worker), asked)
            }
            which => {
                let (what, payload) = self.body_to_worker(which);
                let subject = self.subjects.to_worker(&tenant, worker, session, what);
                (subject, payload)
            }
        };
        let forged = Forged {
            subject,
            reply: self.reply(),
            payload: self.spoilt(payload),
        };
        self.record(&forged);
        forged
    }

    fn record(&mut self, forged: &Forged) {
        if forged.payload.len() < HUGE {
            let at = self.random.below(RECORDED as u32) as usize;
            match self.sent.get_mut(at) {
                Some(sent) => sent.clone_from(forged),
                None => self.sent.push(forged.clone()),
            }
        }
    }

    /// Spoils some messages: it cuts some off, replaces some with random bytes, and makes a few huge.
    fn spoilt(&mut self, mut payload: Vec<u8>) -> Vec<u8> {
        if self.random.below(HUGE_IN) == 0 {
            payload.resize(HUGE, 0x91);
            return payload;
        }
        match self.random.below(8) {
            0 => {
                let length = self
                    .random
                    .below(u32::try_from(payload.len()).unwrap_or(1).max(1));
                payload.truncate(length as usize);
            }
            1 => {
                let count = 1 + self.random.below(64) as usize;
                payload = (0..count).map(|_| self.random.bits() as u8).collect();
            }
            2 => {
                let at = self
                    .random
                    .below(u32::try_from(payload.len()).unwrap_or(1).max(1));
                if let Some(byte) = payload.get_mut(at as usize) {
                    *byte ^= 1 << self.random.below(8);
                }
            }
            _ => {}
        }
        payload
    }

    /// A message on a subject that is not the tenant's.
    pub(super) fn forbidden(&mut self) -> Forged {
        let (root, other) = (self.root(), self.other());
        let (session, worker) = (self.session(), self.worker());
        let (lease, state) = (self.subjects.lease_bucket(), self.subjects.state_bucket());
        let record = self.subjects.record_stream();
        let subjects = [
            self.subjects.to_leader(&other, ToLeader::Close),
            self.subjects.to_leader(&other, ToLeader::Alive),
            self.subjects.to_leader(&other, ToLeader::Intent(session)),
            self.subjects
                .to_worker(&other, worker, session, ToWorker::Batch),
            self.subjects.to_client(&other, session, ToClient::Result),
            self.subjects.to_client(&other, session, ToClient::Leader),
            self.subjects.leader_beat(),
            self.subjects.lost(),
            self.subjects.worker_beat(worker),
            self.subjects.grants(worker),
            self.subjects.done(worker),
            format!("{root}.s.ctl.kill"),
            format!("{root}.s.ctl.hold"),
            format!("{root}.t.{other}.dn.{MARK}"),
            format!("{root}.s.{MARK}"),
            format!("$KV.{lease}.leader"),
            format!("$KV.{state}.tenant.{MARK}"),
            format!("$JS.API.STREAM.DELETE.{record}"),
            format!("$JS.API.STREAM.PURGE.{record}"),
            "$SYS.REQ.ACCOUNT.PING.CONNZ".into(),
            format!("_INBOX.{MARK}"),
        ];
        let (_, payload) = self.body_to_leader(1, session);
        Forged {
            subject: self.pick(&subjects).unwrap_or_default(),
            reply: self.reply(),
            payload,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bus_schemas::{Incarnation, LeaderId, SessionId, Tenant};

    use super::super::forger::Facts;
    use super::super::secret::Secret;
    use super::*;
    use bus_schemas::subject::Subjects;

    fn tenant(name: &str) -> Tenant {
        name.parse().unwrap()
    }

    fn forger(seed: u64) -> Forger {
        let secret = Secret::of(3);
        let mut forger = Forger::new(
            Subjects::new(&tenant("c")),
            tenant("hostile"),
            vec![tenant("neighbour"), tenant("bystander")],
            (secret.key, secret.hashes()),
            seed,
        );
        forger.learn(Facts {
            leaders: vec![LeaderId(1)],
            workers: vec![Incarnation(2)],
            sessions: vec![SessionId(3)],
            connections: vec!["client-4".into()],
        });
        forger
    }

    #[test]
    fn a_seed_has_one_sequence_of_messages_and_another_seed_another() {
        let some = |seed| {
            let mut forger = forger(seed);
            (0..200).map(|_| forger.allowed()).collect::<Vec<_>>()
        };
        assert_eq!(some(7), some(7));
        assert_ne!(some(7), some(8));
    }

    #[test]
    fn every_kind_of_message_is_forged_within_its_rights_and_beyond() {
        let mut forger = forger(1);
        let (mut verbs, mut replies) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..20_000 {
            let Forged {
                subject,
                reply,
                payload,
            } = forger.allowed();
            let rest = subject
                .strip_prefix("wl.v1.c.t.hostile.up.")
                .expect("its own");
            let parts: Vec<_> = rest.split('.').collect();
            let verb = match parts[..] {
                ["l", "intent", _] => "intent",
                [.., verb] => verb,
                [] => "",
            };
            verbs.insert(verb.to_owned());
            replies.extend(reply);
            assert!(payload.len() <= HUGE);
        }
        let all = [
            "alive", "batch", "close", "data", "devices", "intent", "ipc", "memory", "offer",
            "open", "state",
        ];
        assert_eq!(verbs, all.map(str::to_owned).into());
        for prefix in [
            "$JS.API.",
            "$KV.",
            "$SYS.",
            "wl.v1.c.s.",
            "wl.v1.c.t.bystander.dn.",
        ] {
            assert!(
                replies.iter().any(|reply| reply.starts_with(prefix)),
                "{prefix}"
            );
        }
        for _ in 0..1_000 {
            let subject = forger.forbidden().subject;
            assert!(!subject.starts_with("wl.v1.c.t.hostile."), "{subject}");
        }
    }

    #[test]
    fn names_and_subscriptions_are_those_of_others() {
        let forger = forger(1);
        let names = forger.names();
        for name in [
            "leader-0000000000000001",
            "worker-0000000000000002",
            "client-4",
        ] {
            assert!(names.iter().any(|known| known == name), "{names:?}");
        }
        for subject in forger.subscriptions() {
            assert!(!subject.starts_with("wl.v1.c.t.hostile."), "{subject}");
        }
    }
}
