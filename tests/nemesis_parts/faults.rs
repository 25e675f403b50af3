//! Doing each kind of fault, and ending it.

use std::time::Duration;

use super::schedule::{Kind, Step, Victim};
use super::site::{BREAKS, Disks, FULL, Places};
use crate::harness::brokers::Brokers;
use crate::harness::cluster::TestCluster;

/// All that faults are done to.
pub struct Scene<'b> {
    /// The brokers.
    pub brokers: &'b Brokers,
    /// The nodes.
    pub cluster: TestCluster<'b>,
    /// Where they are.
    pub places: Places,
    /// Disks that can be filled and broken.
    pub disks: Disks,
}

/// Packets of a hundred that are lost on a slow line.
const LOST: u32 = 3;

impl Scene<'_> {
    /// The number of the node that a step hits.
    fn victim(&self, step: &Step) -> usize {
        match (step.kind, step.victim) {
            (Kind::FullDisk, _) => FULL,
            (Kind::ReadOnlyDisk, _) => BREAKS,
            (_, Victim::Active(partition)) => self.cluster.active_of(partition).unwrap_or(0),
            (_, Victim::Leader) => self.cluster.raft_leader().unwrap_or(0),
            (_, Victim::Node(node)) => node,
        }
    }

    /// Does it, lets it last, and ends it. Gives the name of whom it hit; an error is why this machine cannot do it.
    pub fn suffer(&mut self, step: &Step) -> Result<String, String> {
        let victim = self.victim(step);
        match step.kind {
            Kind::KillBroker => return Ok(self.kill_broker(step)),
            Kind::FullDisk => self.fill_disk(victim, step.hold)?,
            Kind::ReadOnlyDisk => self.break_disk(victim, step.hold)?,
            Kind::Kill | Kind::LostVolume => {
                self.cluster.nodes[victim].kill9();
                std::thread::sleep(step.hold);
                if step.kind == Kind::LostVolume {
                    self.wipe(victim);
                }
                self.cluster.nodes[victim].start();
            }
            Kind::Freeze => {
                self.cluster.nodes[victim].sigstop();
                std::thread::sleep(step.hold);
                self.cluster.nodes[victim].sigcont();
            }
            Kind::CutPeers | Kind::CutPeersOneWay | Kind::CutKafka | Kind::CutKafkaOneWay | Kind::Slow => {
                self.cut(step, victim);
                std::thread::sleep(step.hold);
                self.places.heal();
            }
        }
        Ok(self.cluster.nodes[victim].slot.clone())
    }

    fn cut(&self, step: &Step, victim: usize) {
        let node = &self.places.nodes[victim];
        let peers = self.places.nodes.iter().enumerate().filter(|(other, _)| *other != victim);
        let others: Vec<_> = match step.kind {
            Kind::Slow => return node.slow(LOST),
            Kind::CutPeers | Kind::CutPeersOneWay => peers.map(|(_, place)| place).collect(),
            _ => self.places.brokers.iter().collect(),
        };
        let one_way = matches!(step.kind, Kind::CutPeersOneWay | Kind::CutKafkaOneWay);
        for other in others {
            if !one_way || step.unheard {
                other.cut_from(node);
            }
            if !one_way || !step.unheard {
                node.cut_from(other);
            }
        }
    }

    fn kill_broker(&self, step: &Step) -> String {
        let partition = match step.victim {
            Victim::Active(partition) => usize::try_from(partition).unwrap_or(0),
            _ => 0,
        };
        let leader = self.brokers.leader(&self.cluster.changelog_topic(), partition);
        self.brokers.all[leader].kill9();
        std::thread::sleep(step.hold);
        self.brokers.all[leader].start_again();
        format!("broker {} of {}", leader + 1, self.brokers.all.len())
    }

    /// All that the node has on its disk; the folder itself may be where a disk is mounted.
    fn wipe(&self, node: usize) {
        let data = self.cluster.dir().join(format!("hotspare-{node}/data"));
        for entry in std::fs::read_dir(&data).expect("the node's data").flatten() {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let removed = if entry.file_name() == "lost+found" {
                Ok(())
            } else if is_folder {
                std::fs::remove_dir_all(entry.path())
            } else {
                std::fs::remove_file(entry.path())
            };
            removed.expect("what the node wrote can be removed");
        }
    }

    fn fill_disk(&mut self, node: usize, hold: Duration) -> Result<(), String> {
        let disk = self.disks.full.as_ref().map_err(Clone::clone)?;
        disk.fill();
        std::thread::sleep(hold);
        disk.free();
        // Raft has stopped there if it had anything to write: it says that a restart is the cure.
        self.restart(node);
        Ok(())
    }

    fn break_disk(&mut self, node: usize, hold: Duration) -> Result<(), String> {
        let disk = std::mem::replace(&mut self.disks.breaks, Err("the disk could not be repaired".to_owned()))?;
        disk.fail();
        std::thread::sleep(hold);
        if self.cluster.nodes[node].is_running() {
            self.cluster.nodes[node].kill9();
        }
        self.disks.breaks = disk.repaired();
        self.disks.breaks.as_ref().expect("the disk can be repaired");
        self.cluster.nodes[node].start();
        Ok(())
    }

    fn restart(&mut self, node: usize) {
        if self.cluster.nodes[node].is_running() {
            self.cluster.nodes[node].kill9();
        }
        self.cluster.nodes[node].start();
    }
}
