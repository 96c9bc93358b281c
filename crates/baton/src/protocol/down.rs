//! What a server says.

use std::collections::{BTreeMap, BTreeSet};

use baton_domain::ids::{
    Account, AttemptId, Capability, Commit, DeploymentId, ProjectId, RunId, StageName, TenantId,
};
use baton_domain::limits::{CAPABILITIES_MAX, LINES_MAX};
use baton_domain::project::WorkedBy;
use baton_domain::run::Purpose;
use baton_domain::text::{Code, Line, Message, Reason, Text};

use super::frame::frames;
use super::parts::{
    About, Ask, Caps, Conversation, Deadlines, Packet, Renewal, Secret, Standing, Turn, Verdict,
};
use super::work::Work;
use super::{SLOTS_MAX, VARIABLES_MAX};
use crate::shape::{When, record};

record! {
    /// How an attempt stands that a worker said it has.
    pub struct Resume {
        /// Which one.
        attempt: AttemptId,
        /// Every frame up to this number was carried out; what comes after it is to be sent again.
        applied_seq: u64,
        /// How long its lease lives from now on without renewal, in milliseconds; none if it has none.
        lease_ms: Option<u64>,
        /// It must be stopped, for this reason.
        stop: Option<Verdict>,
        /// It holds the run no longer, or never did: stop it, and tell only how it died and what it cost.
        fenced: Option<Code>,
        /// How its run stands, if its agent goes on.
        stands: Option<Standing>,
    }
}

record! {
    /// How a piece of work lands.
    pub struct Ticket {
        /// The branch; the one that is checked out, if absent.
        target: Option<Line>,
        /// What the commit says that brings it.
        subject: Line,
        /// Where the branch is pushed to once it has moved: the name of a remote.
        push: Option<Line>,
    }
}

frames! {
    /// What a server says.
    "server": pub enum Down {
        /// The answer to a hello.
        Welcome = "welcome" {
            /// The protocol that it speaks.
            protocol: u32,
            /// The version of the server.
            server: Text<64>,
            /// The installation that everything belongs to.
            deployment: DeploymentId,
            /// Whose worker it is.
            tenant: Option<TenantId>,
            /// Which life of the store this is, in hexadecimal digits; tokens of another are dead.
            incarnation: Text<16>,
            /// Send a heartbeat at least this often, in milliseconds.
            heartbeat_ms: u64,
            /// How the attempts of the hello stand, in its order.
            #[at_most(SLOTS_MAX)]
            resume: Vec<Resume>,
        }

        /// A run to work on. It uses one credit up.
        Dispatch = "dispatch" {
            /// The fence.
            attempt: AttemptId,
            /// The run.
            run: RunId,
            /// Of which project.
            project: ProjectId,
            /// The folder of the project, if it has one.
            root: Option<Line>,
            /// In which stage.
            stage: StageName,
            /// Who works that stage.
            worked_by: WorkedBy,
            /// What its agent must be able to do.
            #[at_most(CAPABILITIES_MAX)]
            needs: Option<BTreeSet<Capability>>,
            /// What the run is held for.
            purpose: Purpose,
            /// Whether somebody was here before.
            turn: Turn,
            /// How long the lease lives without renewal, in milliseconds.
            lease_ms: u64,
            /// How long each phase may take.
            deadlines: Deadlines,
            /// What the attempt may use; an old server does not say, and counts on the usual.
            caps: Option<Caps>,
            /// The account that it was claimed under: one of the hello.
            account: Option<Account>,
            /// The conversation of the attempt before, if there is one to go on with.
            session: Option<Conversation>,
            /// The work of the attempts before, if the server has it: what the attempt begins from.
            work: Option<Work>,
            /// The commit of the task that passed its checks last: stages after that are about it, and about nothing newer.
            head: Option<Commit>,
            /// How it lands, if it is a car of the train.
            landing: Option<Ticket>,
            /// What is to be run, if the run is held to verify what was submitted: on the head, or else on the work.
            #[at_most(LINES_MAX)]
            asks: Option<Vec<Ask>>,
            /// What proves the attempt for its worker, also once it is over. It never goes to the agent.
            token: Secret,
            /// What proves the attempt for its agent: `BATON_CLAIM_TOKEN`.
            agent_token: Secret,
            /// Variables for the agent's environment.
            #[at_most(VARIABLES_MAX)]
            env: Option<BTreeMap<String, Line>>,
            /// What the agent is told: the hand-off of the run.
            packet: Packet,
        }

        /// A frame of this number, and all before it, need not be sent again.
        Ack = "ack" {
            /// Which attempt.
            attempt: AttemptId,
            /// Up to this number.
            seq: u64,
        }

        /// Leases that a heartbeat renewed.
        Renewed = "renewed" {
            /// Which, and for how long.
            #[at_most(SLOTS_MAX)]
            leases: Vec<Renewal>,
        }

        /// The attempt holds the run no longer: stop it, and tell only how it died and what it cost.
        Fenced = "fenced" {
            /// Which attempt.
            attempt: AttemptId,
            /// Why, as a code of a problem.
            code: Code,
        }

        /// The answer to a question or to a request for permission.
        Answer = "answer" {
            /// Which attempt.
            attempt: AttemptId,
            /// Which question.
            id: Text<64>,
            /// What a person said.
            text: Message,
        }

        /// Stop the agent, prove its death, and tell it.
        Cancel = "cancel" {
            /// Which attempt.
            attempt: AttemptId,
            /// What will count then.
            why: Verdict,
        }

        /// How the run of an attempt stands that goes on; told when it changes.
        Stands = "stands" {
            /// Which attempt.
            attempt: AttemptId,
            /// How.
            how: Standing,
            /// What is to be run on the work as it is now, if what it submitted is looked at; the answer is `gates`.
            #[at_most(LINES_MAX)]
            asks: Option<Vec<Ask>>,
        }

        /// What the project asks of the run is known: its agent may be started.
        Bound = "bound" {
            /// Which attempt.
            attempt: AttemptId,
        }

        /// The agent left a checkpoint: its work is to be kept now.
        Checkpointed = "checkpointed" {
            /// Which attempt.
            attempt: AttemptId,
        }

        /// Somebody follows what the agent says: tell it now, as a `log`.
        Listen = "listen" {
            /// Which attempt.
            attempt: AttemptId,
            /// The lines after this one.
            after: u64,
        }

        /// No more runs are handed out here. Whatever runs goes on.
        Drain = "drain" {
            /// When the connection ends.
            until: Option<When>,
        }

        /// Something was not carried out. A frame that it names need not be sent again.
        Trouble = "problem" {
            /// A stable word.
            code: Code,
            /// A sentence.
            detail: Reason,
            /// The field that is wrong, if one is.
            field: Option<Text<128>>,
            /// The frame that it is about, if it is about one.
            about: Option<About>,
        }
    }
}
