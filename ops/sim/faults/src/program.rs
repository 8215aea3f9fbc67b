//! Model programs: a client's actions on its sessions, drawn from the seed.

use bus_schemas::ModuleHash;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::device::FAULTY;
use crate::exporting::PEEK_NEEDS;
use sim_cluster::Random;
use sim_cluster::{MICRO, MILLI, Nanos};

/// Conduct of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum Conduct {
    /// It follows the rules.
    Honest,
    /// One of its launches fails on the device.
    Faulty,
    /// From this op on, it announces costs that its ops do not have.
    Liar(u64),
    /// From this op on it announces ops and never sends them.
    Mute(u64),
    /// It accesses memory that is not its own.
    Trespasser,
}

/// One step of a session's program. Copies and sets go to its first allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum Step {
    /// Launch a function of the module in slot 0 with parameters that are all `fill`.
    Launch {
        function: u32,
        grid: u32,
        stream: u16,
        fill: u8,
    },
    /// Copy that many bytes, all `fill`, to the device.
    CopyIn { bytes: u16, fill: u8, stream: u16 },
    /// Set that many bytes.
    Set { count: u64, value: u32, stream: u16 },
    /// Record an event.
    Event { event: u32, stream: u16 },
    /// Copy that many bytes on the device.
    Copy { bytes: u64, stream: u16 },
    /// Copy that many bytes to the host.
    Read(u64),
    /// Ask for an answer once all earlier ops have run.
    Sync,
    /// Allocate that many bytes.
    Alloc(u64),
    /// Write or read at the address where another session's memory would begin: in the next window, or the
    /// previous one.
    Trespass { write: bool, next: bool },
    /// Free the oldest allocation but one.
    Free,
    /// Copy that many bytes to the device, staged.
    Staged(u32),
    /// Offer that many bytes of a content, and copy them to the device.
    Offered { content: u32, bytes: u32 },
    /// Export the newest allocation by a key.
    Export(u32),
    /// Import what another session of the tenant has exported by a key.
    Import(u32),
    /// Read the import, if there is one.
    Peek,
    /// Give the import back, if there is one.
    GiveBack,
    /// Stage a module's image of that many bytes and load it into a slot.
    Load { slot: u32, bytes: u32 },
    /// Wait for all pending answers.
    Wait,
    /// Do nothing for a while.
    Think(Nanos),
    /// End the session.
    Close,
}

impl Step {
    /// True if its session cannot survive it.
    #[must_use]
    pub(crate) fn is_fatal(&self) -> bool {
        match self {
            Self::Launch { function, .. } => *function == FAULTY,
            Self::Trespass { .. } => true,
            _ => false,
        }
    }
}

/// One session of a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Program {
    /// Its number among its client's programs, from which its random source follows.
    pub number: u32,
    /// Time at which it asks for its session.
    #[serde(with = "sim_cluster::time_text")]
    pub start: Nanos,
    /// Its conduct. With several devices it applies to the first; on the others the program is honest.
    pub conduct: Conduct,
    /// Number of devices, each on another worker, all or none. The program does the same on each.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub devices: u32,
    /// Its steps.
    pub steps: Vec<Step>,
}

impl Program {
    /// True if each step has what it needs: launches need a module, copies need a first allocation that is
    /// large enough. An unsound program is not a client's; it fails for that alone.
    #[must_use]
    pub(crate) fn is_sound(&self) -> bool {
        let (mut loaded, mut first) = (false, 0);
        self.steps.iter().all(|step| {
            let needs = match *step {
                Step::Load { slot: 0, .. } => {
                    loaded = true;
                    0
                }
                Step::Alloc(bytes) => {
                    first = if first == 0 { bytes } else { first };
                    0
                }
                Step::Launch { .. } if !loaded => return false,
                Step::CopyIn { bytes, .. } => u64::from(bytes),
                Step::Staged(bytes) | Step::Offered { bytes, .. } => u64::from(bytes),
                Step::Set { count, .. } => count,
                Step::Copy { bytes, .. } => COPIED_FROM + bytes,
                Step::Read(bytes) => bytes,
                Step::Peek => PEEK_NEEDS,
                _ => 0,
            };
            let fatal = self.conduct == Conduct::Honest && step.is_fatal();
            needs <= first && !fatal
        })
    }
}

fn one() -> u32 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands on a reference"
)]
fn is_one(devices: &u32) -> bool {
    *devices == 1
}

/// A client process's death.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Death {
    /// Time of the death.
    #[serde(with = "sim_cluster::time_text")]
    pub at: Nanos,
    /// True if the broker tells the leaders.
    pub told: bool,
}

/// Draws a client's sessions, and the death of its process, if any. `length` is the virtual time over which
/// its work stretches. `unruly` allows deaths and conduct that is not honest. With `crowded`, all sessions
/// begin at once and rest seldom.
#[must_use]
pub(crate) fn plan(
    random: &mut Random,
    length: Nanos,
    unruly: bool,
    crowded: bool,
) -> (Vec<Program>, Option<Death>) {
    let count = 1 + random.index(3) as u32;
    let mut programs: Vec<Program> = (0..count)
        .map(|number| program(random, number, length, unruly, crowded))
        .collect();
    let mute = programs
        .iter()
        .any(|program| matches!(program.conduct, Conduct::Mute(_)));
    // A silent client's death is mostly told: otherwise the run lasts the whole expiry.
    let dies = (mute || unruly && random.chance(120)).then(|| Death {
        at: random.between(length / 8, length),
        told: random.chance(850),
    });
    if random.chance(100) {
        programs.truncate(1);
    }
    (programs, dies)
}

fn program(
    random: &mut Random,
    number: u32,
    length: Nanos,
    unruly: bool,
    crowded: bool,
) -> Program {
    let conduct = match random.between(0, 19) {
        0 if unruly => Conduct::Faulty,
        1 if unruly => Conduct::Liar(random.between(3, 60)),
        2 if unruly => Conduct::Mute(random.between(3, 60)),
        3 if unruly => Conduct::Trespasser,
        _ => Conduct::Honest,
    };
    let bytes = image(random);
    let mut steps = vec![Step::Load { slot: 0, bytes }, Step::Alloc(FIRST)];
    let bursts = 1 + random.index(12);
    let pause = length / bursts as u64;
    let dense = crowded || random.chance(250);
    for _ in 0..bursts {
        burst(random, &mut steps);
        if !dense {
            steps.push(Step::Think(random.between(0, pause)));
        }
    }
    if conduct == Conduct::Faulty {
        let at = steps.len().saturating_sub(random.index(4) + 1).max(1);
        steps.insert(at, launch(random, FAULTY));
    }
    if conduct == Conduct::Trespasser {
        let at = steps.len().saturating_sub(random.index(8) + 1).max(2);
        let (write, next) = (random.chance(500), random.chance(500));
        steps.insert(at, Step::Trespass { write, next });
    }
    steps.extend([Step::Sync, Step::Wait]);
    if random.chance(950) {
        steps.push(Step::Close);
    }
    Program {
        number,
        start: random.between(0, if crowded { 5 * MILLI } else { length / 3 }),
        conduct,
        devices: 1,
        steps,
    }
}

fn image(random: &mut Random) -> u32 {
    let most = if random.chance(200) {
        400 << 10
    } else {
        8 << 10
    };
    random.between(1, most) as u32
}

fn burst(random: &mut Random, steps: &mut Vec<Step>) {
    let ops = match random.between(0, 19) {
        0 => random.between(200, 1500),
        1..=4 => random.between(20, 120),
        _ => random.between(1, 20),
    };
    for _ in 0..ops {
        steps.push(step(random));
    }
    if random.chance(150) {
        steps.push(Step::Staged(random.between(17 << 10, 600 << 10) as u32));
    }
    if random.chance(60) {
        let slot = random.between(0, 2) as u32;
        let bytes = image(random);
        steps.push(Step::Load { slot, bytes });
    }
    match random.between(0, 9) {
        0..=2 => steps.push(Step::Sync),
        3..=7 => steps.push(read(random)),
        _ => {}
    }
    if random.chance(600) {
        steps.push(Step::Wait);
    }
}

fn step(random: &mut Random) -> Step {
    let stream = random.between(0, 2) as u16;
    match random.between(0, 29) {
        0 => Step::Alloc(random.between(1, 1 << 16)),
        1 => Step::Free,
        2 => Step::CopyIn {
            bytes: random.between(1, 300) as u16,
            fill: random.draw() as u8,
            stream,
        },
        3 => Step::Set {
            count: random.between(1, 1024),
            value: random.draw() as u32,
            stream,
        },
        4 => Step::Event {
            event: random.between(0, 7) as u32,
            stream,
        },
        5 => Step::Copy {
            bytes: random.between(1, 512),
            stream,
        },
        _ => {
            let function = random.between(0, 9) as u32;
            launch(random, function)
        }
    }
}

fn launch(random: &mut Random, function: u32) -> Step {
    Step::Launch {
        function,
        grid: 1 + random.between(0, 2) as u32,
        stream: random.between(0, 2) as u16,
        fill: random.draw() as u8,
    }
}

fn read(random: &mut Random) -> Step {
    Step::Read(if random.chance(40) {
        random.between(1, 600 << 10)
    } else {
        random.between(1, 200)
    })
}

/// A transfer's bytes, some of which vary.
#[must_use]
pub(crate) fn staged_bytes(random: &mut Random, bytes: u32) -> Bytes {
    let mut content = vec![0x5a; bytes as usize];
    let mark = random.draw().to_le_bytes();
    let end = mark.len().min(content.len());
    content[..end].copy_from_slice(&mark[..end]);
    content.into()
}

/// A module's image and its hash. A tenant's sessions share a few images by number.
#[must_use]
pub(crate) fn module(bytes: u32, salt: u64) -> (Bytes, ModuleHash) {
    let mut content = vec![0xa5; bytes.max(8) as usize];
    content[..8].copy_from_slice(&(salt % 3).to_le_bytes());
    let hash = ModuleHash::of(&content);
    (content.into(), hash)
}

/// Bytes of a session's first allocation, the destination of its copies.
pub(crate) const FIRST: u64 = 640 << 10;
/// Offset in it from which copies on the device take their bytes.
pub(crate) const COPIED_FROM: u64 = 1024;
/// Time after which a client repeats a request without an answer.
pub(crate) const REQUEST_AGAIN: Nanos = 400 * MILLI;
/// Number of a session's module slots.
pub(crate) const SLOTS: u32 = 4;
/// Time for which a client pauses its program when the outbox has no room.
pub(crate) const FULL_WAIT: Nanos = 500 * MICRO;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::Scene;

    #[test]
    fn every_program_that_is_drawn_finds_what_it_needs_and_one_without_its_beginning_does_not() {
        let mut seen = 0;
        for seed in 1..=200 {
            let mut scene = Scene::draw(seed, None);
            for program in scene.clients.iter_mut().flat_map(|it| &mut it.programs) {
                assert!(program.is_sound(), "seed {seed}: {program:?}");
                let begins = matches!(
                    program.steps[..],
                    [Step::Load { .. }, Step::Launch { .. }, ..]
                );
                if begins {
                    program.steps.remove(0);
                    assert!(!program.is_sound(), "seed {seed}");
                    seen += 1;
                }
            }
        }
        assert!(seen > 100, "{seen}");
    }
}
