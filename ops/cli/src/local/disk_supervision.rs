//! Supervision of the disks of the broker's servers. Faults are reported, and a server that refuses
//! to store is restarted once its disk is writable.

use std::time::{Duration, Instant};

use super::LocalCluster;
use super::disks::Change;
use super::supervision::broker_name;

/// Time that a server may take to stop before it is killed.
const STOP: Duration = Duration::from_secs(5);
/// Pause between the restarts of two servers, so that the copies of the first are equal to the
/// others' again.
const APART: Duration = Duration::from_secs(15);

impl LocalCluster {
    /// Checks the disks of all servers. Restarts a server that refuses to store although its disk
    /// is writable.
    pub(super) fn tend_disks(&mut self, said: &mut Vec<String>) {
        for index in 0..self.broker.servers().len() {
            self.tend_disk(index, said);
        }
        let servers = self.options.brokers;
        let wrong = self.disks.iter().enumerate().filter_map(|(index, disk)| {
            let wrong = disk.health.wrong.as_ref()?;
            match servers {
                1 => Some(wrong.clone()),
                _ => Some(format!("{}: {wrong}", broker_name(index, servers))),
            }
        });
        self.announcer.say(wrong.collect::<Vec<_>>().join("; "));
    }

    fn tend_disk(&mut self, index: usize, said: &mut Vec<String>) {
        let name = broker_name(index, self.options.brokers);
        let server = &mut self.broker.servers_mut()[index];
        let disk = &mut self.disks[index];
        let Some(look) = disk.watch(server) else {
            return;
        };
        if let Some(asked) = disk.asked {
            if asked.elapsed() > STOP && server.is_running() {
                // Its watch starts anew after its restart.
                drop(server.kill());
            }
            return;
        }
        match disk.health.looked(&look) {
            Some(Change::Wrong(wrong)) => said.push(format!(
                "{name}: {wrong}; programs run on, and what is to be stored waits"
            )),
            Some(Change::Roomy) => said.push(format!("{name}: its disk has room again")),
            Some(Change::Over) => self.refresh(index, &name, said),
            None => {}
        }
        // If this fails, it is retried after the next measurement.
        if look.roomier && self.disks[index].takes_room(look.number) {
            drop(self.broker.servers()[index].take_room());
        }
    }

    /// Restarts a server after its disk has become writable.
    fn refresh(&mut self, index: usize, name: &str, said: &mut Vec<String>) {
        let now = Instant::now();
        let mut others = self.brokers_started.iter().enumerate();
        if others.any(|(other, started)| other != index && now - *started < APART) {
            return;
        }
        let (server, disk) = (&self.broker.servers()[index], &mut self.disks[index]);
        let running = server.is_running();
        // A failed request is retried.
        if running && server.ask_to_stop().is_err() {
            return;
        }
        disk.health.begin_anew();
        if running {
            disk.asked = Some(now);
            said.push(format!(
                "{name}: its disk can be written; it is started again, for it refuses to store \
                 until then"
            ));
        } else {
            said.push(format!("{name}: its disk can be written"));
            self.restarts
                .entry(name.to_owned())
                .or_default()
                .hasten(now);
        }
    }
}
