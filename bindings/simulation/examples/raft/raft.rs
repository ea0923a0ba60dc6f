//! The rules of Raft: what a node does with a request, with a reply, and when it hears of no leader.
//!
//! Figure 2 of "In Search of an Understandable Consensus Algorithm" (Ongaro and Ousterhout, 2014),
//! and section 6.4 of Ongaro's dissertation for reads: a leader answers one when a majority has
//! followed it since the read began. Nothing here waits, but for the disk.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::bug::Bug;
use crate::log::Log;
use crate::message::{Entry, Reply, Request};
use crate::random::random_ms;
use crate::store::{Command, Operation, Output, Store};
use crate::witness::{Event, Witness};

/// How long a leader is silent at most.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(50);

/// After this time without a leader, a node becomes a candidate. Several heartbeats may be lost, and
/// two candidates seldom begin at once.
const ELECTION_MS: std::ops::Range<u64> = 150..250;

#[derive(Debug)]
pub(crate) struct Raft {
    name: String,
    log: Log,
    store: Store,
    role: Role,
    /// The index of the last entry that is committed, and applied.
    commit: u64,
    /// When the node becomes a candidate.
    deadline: Instant,
    peers: Vec<Peer>,
    /// Number of reads that have begun since the node leads.
    round: u64,
    /// The index of the first entry since the node leads.
    first: u64,
    bug: Option<Bug>,
    witness: Arc<Witness>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Follower,
    Candidate,
    Leader,
}

/// What a candidate or leader knows of another node.
#[derive(Debug, Clone)]
struct Peer {
    /// When it gets a request, though there is nothing new.
    due: Instant,
    vote: Option<bool>,
    /// The index of the next entry that it gets.
    next: u64,
    /// The index up to which its log is the leader's.
    matched: u64,
    /// The last round in which it followed.
    round: u64,
}

/// A command that waits until this entry is committed and a majority has followed in this round.
#[derive(Debug)]
pub(crate) struct Pending {
    term: u64,
    index: u64,
    round: u64,
}

impl Raft {
    pub(crate) fn new(
        name: String,
        peers: usize,
        log: Log,
        bug: Option<Bug>,
        witness: Arc<Witness>,
    ) -> Raft {
        let peer = Peer {
            due: Instant::now(),
            vote: None,
            next: 1,
            matched: 0,
            round: 0,
        };
        let mut raft = Raft {
            name,
            log,
            store: Store::new(bug),
            role: Role::Follower,
            commit: 0,
            deadline: Instant::now(),
            peers: vec![peer; peers],
            round: 0,
            first: 0,
            bug,
            witness,
        };
        raft.put_off_election();
        raft
    }

    // Every node: requests of candidates and leaders.

    /// Answers a request of another node.
    pub(crate) fn answer(&mut self, request: Request) -> io::Result<Reply> {
        match request {
            Request::Vote {
                term,
                candidate,
                last_index,
                last_term,
            } => {
                self.observe(term)?;
                let own = (self.last_term(), self.log.last_index());
                let granted = term == self.log.term()
                    && self.log.vote().is_none_or(|vote| vote == candidate)
                    && (last_term, last_index) >= own;
                if granted {
                    self.log.set_term(term, Some(candidate))?;
                    self.put_off_election();
                }
                let term = self.log.term();
                Ok(Reply::Vote { term, granted })
            }
            Request::Append {
                term,
                previous_index,
                previous_term,
                entries,
                commit,
                ..
            } => {
                self.observe(term)?;
                let is_leaders = term == self.log.term();
                let accepted =
                    is_leaders && self.log.term_at(previous_index) == Some(previous_term);
                if is_leaders {
                    self.role = Role::Follower;
                    self.put_off_election();
                }
                if accepted {
                    self.append(previous_index, &entries)?;
                    self.commit_to(commit.min(previous_index + entries.len() as u64));
                }
                Ok(Reply::Append {
                    term: self.log.term(),
                    accepted,
                    last_index: self.log.last_index(),
                })
            }
            Request::Execute(_) => Ok(Reply::NotLeader),
        }
    }

    /// Becomes a follower if this term is newer.
    fn observe(&mut self, term: u64) -> io::Result<()> {
        if term > self.log.term() {
            self.role = Role::Follower;
            self.log.set_term(term, None)?;
        }
        Ok(())
    }

    /// Adds a leader's entries, and drops others if they differ.
    fn append(&mut self, previous: u64, entries: &[Entry]) -> io::Result<()> {
        let indices = previous + 1..;
        let known = entries
            .iter()
            .zip(indices)
            .take_while(|(entry, index)| self.log.term_at(*index) == Some(entry.term))
            .count();
        if known == entries.len() {
            return Ok(());
        }
        self.log.append(previous + known as u64, &entries[known..])
    }

    fn commit_to(&mut self, index: u64) {
        if index <= self.commit {
            return;
        }
        let count = (index - self.commit) as usize;
        for (index, entry) in (self.commit + 1..).zip(&self.log.after(self.commit)[..count]) {
            self.witness.hear(Event::Commits {
                index,
                entry: entry.clone(),
                term: self.log.term(),
            });
            if let Some(command) = &entry.command {
                self.store.apply(command);
            }
        }
        self.commit = index;
    }

    // Candidates.

    /// Returns how long the node goes on without a leader.
    pub(crate) fn time_to_election(&self) -> Duration {
        match self.role {
            Role::Leader => HEARTBEAT,
            _ => self.deadline.saturating_duration_since(Instant::now()),
        }
    }

    fn put_off_election(&mut self) {
        self.deadline = Instant::now() + random_ms(ELECTION_MS);
    }

    pub(crate) fn start_election(&mut self) -> io::Result<()> {
        let term = self.log.term() + 1;
        self.log.set_term(term, Some(self.name.clone()))?;
        self.role = Role::Candidate;
        self.put_off_election();
        for peer in &mut self.peers {
            (peer.vote, peer.due) = (None, Instant::now());
        }
        self.count_votes()
    }

    fn count_votes(&mut self) -> io::Result<()> {
        let votes = self.peers.iter().filter(|peer| peer.vote == Some(true));
        if self.role == Role::Candidate && votes.count() + 1 > self.peers.len().div_ceil(2) {
            return self.lead();
        }
        Ok(())
    }

    // Leaders.

    fn lead(&mut self) -> io::Result<()> {
        self.witness.hear(Event::Leads {
            term: self.log.term(),
            name: self.name.clone(),
            log: self.log.after(0).to_vec(),
        });
        self.role = Role::Leader;
        self.round = 0;
        self.first = self.log.last_index() + 1;
        for peer in &mut self.peers {
            peer.next = self.first;
            (peer.matched, peer.round) = (0, 0);
        }
        self.add(None)
    }

    fn add(&mut self, command: Option<Command>) -> io::Result<()> {
        let term = self.log.term();
        let entry = Entry { term, command };
        self.log.append(self.log.last_index(), &[entry])?;
        self.advance_commit();
        Ok(())
    }

    /// Returns the request that a peer gets next, or how long there is none.
    pub(crate) fn request_for(&mut self, peer: usize) -> Result<Request, Duration> {
        let (term, last_index) = (self.log.term(), self.log.last_index());
        let last_term = self.last_term();
        let peer = &mut self.peers[peer];
        let rest = peer.due.saturating_duration_since(Instant::now());
        let is_due = match self.role {
            Role::Follower => return Err(HEARTBEAT),
            Role::Candidate if peer.vote.is_some() => return Err(HEARTBEAT),
            Role::Candidate => rest.is_zero(),
            Role::Leader => rest.is_zero() || peer.next <= last_index || peer.round < self.round,
        };
        if !is_due {
            return Err(rest);
        }
        peer.due = Instant::now() + HEARTBEAT;
        if self.role == Role::Candidate {
            return Ok(Request::Vote {
                term,
                candidate: self.name.clone(),
                last_index,
                last_term,
            });
        }
        let previous_index = peer.next - 1;
        Ok(Request::Append {
            term,
            previous_index,
            previous_term: self.log.term_at(previous_index).expect("an own entry"),
            entries: self.log.after(previous_index).to_vec(),
            commit: self.commit,
            round: self.round,
        })
    }

    /// Does what the reply of a peer to this request demands.
    pub(crate) fn on_reply(
        &mut self,
        peer: usize,
        request: &Request,
        reply: &Reply,
    ) -> io::Result<()> {
        let (Reply::Vote { term: newest, .. } | Reply::Append { term: newest, .. }) = reply else {
            return Ok(());
        };
        if self.role != Role::Leader || self.bug != Some(Bug::SplitBrain) {
            self.observe(*newest)?;
        }
        let (own, role) = (self.log.term(), self.role);
        let peer = &mut self.peers[peer];
        match (request, reply) {
            (Request::Vote { term, .. }, Reply::Vote { granted, .. }) if *term == own => {
                peer.vote = Some(*granted);
                self.count_votes()
            }
            (
                Request::Append {
                    term,
                    previous_index,
                    entries,
                    round,
                    ..
                },
                Reply::Append {
                    accepted,
                    last_index,
                    ..
                },
            ) if *term == own && role == Role::Leader => {
                peer.round = *round;
                if *accepted {
                    peer.matched = previous_index + entries.len() as u64;
                    peer.next = peer.matched + 1;
                } else {
                    peer.next = (*previous_index).clamp(1, last_index + 1);
                }
                self.advance_commit();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Commits what a majority has. An entry of an earlier term is committed by a later one only.
    fn advance_commit(&mut self) {
        let own = self.log.last_index();
        let index = majority(self.peers.iter().map(|peer| peer.matched), own);
        if self.log.term_at(index) == Some(self.log.term()) {
            self.commit_to(index);
        }
    }

    /// Begins to execute a client's command, unless another node leads.
    pub(crate) fn begin(&mut self, command: &Command) -> io::Result<Option<Pending>> {
        if self.role != Role::Leader {
            return Ok(None);
        }
        let term = self.log.term();
        if command.operation == Operation::Get {
            self.round += 1;
            // All that was committed before this term is before its first entry.
            let index = self.commit.max(self.first);
            let round = self.round;
            return Ok(Some(Pending { term, index, round }));
        }
        self.add(Some(command.clone()))?;
        let index = self.log.last_index();
        let round = 0;
        Ok(Some(Pending { term, index, round }))
    }

    /// Returns the reply to a client, if it is time.
    pub(crate) fn reply_to(&self, command: &Command, pending: &Pending) -> Option<Reply> {
        if self.role != Role::Leader || self.log.term() != pending.term {
            return Some(Reply::NotLeader);
        }
        let followed = majority(self.peers.iter().map(|peer| peer.round), self.round);
        let is_confirmed = followed >= pending.round || self.bug == Some(Bug::StaleRead);
        if self.commit < pending.index || !is_confirmed {
            return None;
        }
        if command.operation == Operation::Get {
            let value = self.store.value(&command.key);
            return Some(Reply::Done(Output::Value(value)));
        }
        let output = self.store.output(command);
        Some(output.map_or(Reply::NotLeader, Reply::Done))
    }

    fn last_term(&self) -> u64 {
        let index = self.log.last_index();
        self.log.term_at(index).expect("the last entry")
    }
}

/// Returns the highest number that a majority has reached.
fn majority(peers: impl Iterator<Item = u64>, own: u64) -> u64 {
    let mut all: Vec<_> = peers.chain([own]).collect();
    all.sort_unstable();
    all[(all.len() - 1) / 2]
}
