//! Several processes that train together, and which of them this one is.

use std::path::PathBuf;
use std::time::Duration;

use evenkeel_config::{HumanDuration, Settings, at_least_1ms};
use evenkeel_host::Secret;
use evenkeel_proto::FieldError;
use evenkeel_rpc::client::ClientSettings;
use evenkeel_rpc::server::ServerSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ranks::Division;

/// Ranks: processes that divide the work of each step and reach the bits of one. Absent: this process trains alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RankSettings {
    /// How many there are, at most `compute.gradient_blocks`; 0 takes the number from the launcher's environment.
    pub count: usize,
    /// The number of this process, from 0. Absent: the launcher's environment says it (torchrun, Slurm, MPI, an indexed
    /// Job of Kubernetes).
    pub rank: Option<usize>,
    /// Where rank 0 listens for the others, `HOST:PORT`. Absent: MASTER_ADDR and MASTER_PORT of the environment, or the
    /// port after that where torchrun started the ranks, whose own store has MASTER_PORT.
    pub address: Option<String>,
    /// File with the token of these ranks, which every rank reads: rank 0 takes nobody without it, also on loopback. One
    /// line of at least 16 visible ASCII characters. Required, unless `server` and `client` have tokens or client
    /// certificates of their own.
    pub token_file: Option<PathBuf>,
    /// How long one rank may keep the others waiting, the longest part of a step included.
    #[serde(with = "HumanDuration")]
    pub timeout: Duration,
    /// How long ranks wait for each other at the start, and those after rank 0 for rank 0 to come back; then they end.
    #[serde(with = "HumanDuration")]
    pub join_timeout: Duration,
    /// The port of rank 0 for the other ranks. `listen` is `address` if it is not set.
    pub server: ServerSettings,
    /// How the other ranks connect: to an https address if it has certificates.
    pub client: ClientSettings,
}

impl Default for RankSettings {
    fn default() -> Self {
        Self {
            count: 0,
            rank: None,
            address: None,
            token_file: None,
            timeout: Duration::from_secs(600),
            join_timeout: Duration::from_secs(600),
            server: ServerSettings::default(),
            client: ClientSettings::default(),
        }
    }
}

/// Which rank this process is, and where the ranks meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankPlace {
    /// Which of how many.
    pub division: Division,
    /// `HOST:PORT` of rank 0.
    pub address: String,
}

/// What launchers call the number of a process, and the number of processes.
const LAUNCHERS: [(&str, Option<&str>); 5] = [
    // torchrun, and whoever starts processes by hand.
    ("RANK", Some("WORLD_SIZE")),
    ("SLURM_PROCID", Some("SLURM_NTASKS")),
    ("OMPI_COMM_WORLD_RANK", Some("OMPI_COMM_WORLD_SIZE")),
    ("PMI_RANK", Some("PMI_SIZE")),
    // An indexed Job of Kubernetes.
    ("JOB_COMPLETION_INDEX", None),
];

impl RankSettings {
    pub(super) fn validate(&self, gradient_blocks: usize) -> Result<(), FieldError> {
        if self.count > gradient_blocks {
            let allowed = format!("at most learner.compute.gradient_blocks, which is {gradient_blocks}");
            return Err(FieldError::new("count", self.count, allowed));
        }
        at_least_1ms(&[("timeout", self.timeout), ("join_timeout", self.join_timeout)])?;
        self.client.validate().map_err(|error| error.within("client"))
    }

    /// Which rank this process is; `None` if there is only one. `variable` reads the environment.
    ///
    /// # Errors
    /// Nothing that says it, a number that is out of range or differs from the launcher's, no address.
    pub fn place(
        &self,
        gradient_blocks: usize,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<RankPlace>, FieldError> {
        let number = |name: &str| -> Result<Option<usize>, FieldError> {
            let Some(text) = variable(name).filter(|text| !text.is_empty()) else { return Ok(None) };
            let wrong = |_| FieldError::new(format!("the environment's {name}"), format_args!("{text:?}"), "a number");
            text.parse().map(Some).map_err(wrong)
        };
        let launcher = LAUNCHERS.iter().find(|(rank, _)| variable(rank).is_some_and(|text| !text.is_empty()));
        let (rank, size) = match launcher {
            Some((rank, size)) => (number(rank)?, size.map(number).transpose()?.flatten()),
            None => (None, None),
        };
        let ranks = match (self.count, size) {
            (0, Some(size)) => size,
            (0, None) => {
                let allowed = "the number of ranks: no launcher's environment says it (WORLD_SIZE, SLURM_NTASKS)";
                return Err(FieldError::new("ranks.count", 0, allowed));
            }
            (count, Some(size)) if count != size && self.rank.is_none() => {
                return Err(FieldError::new(
                    "ranks.count",
                    count,
                    format!("{size}, the number of the launcher's processes"),
                ));
            }
            (count, _) => count,
        };
        if ranks == 0 || ranks > gradient_blocks {
            let allowed = format!("1 to learner.compute.gradient_blocks, which is {gradient_blocks}");
            return Err(FieldError::new("ranks.count", ranks, allowed));
        }
        if ranks == 1 {
            return Ok(None);
        }
        let Some(rank) = self.rank.or(rank) else {
            let allowed = "the number of this process: no launcher's environment says it (RANK, SLURM_PROCID)";
            return Err(FieldError::missing("ranks.rank", allowed));
        };
        if rank >= ranks {
            return Err(FieldError::new("ranks.rank", rank, format!("0 to {}, one of {ranks} ranks", ranks - 1)));
        }
        let address = match &self.address {
            Some(address) => address.clone(),
            None => master(variable)?,
        };
        Ok(Some(RankPlace { division: Division::new(rank, ranks), address }))
    }

    /// Refuses ranks that anybody could join. `rank` is this one.
    pub(super) fn validate_token(&self, rank: usize) -> Result<(), FieldError> {
        let Self { server, client, token_file, .. } = self;
        if let Some(path) = token_file {
            let refused = |error| FieldError::new("ranks.token_file", path.display(), format!("a token: {error}"));
            return Secret::read_all(path).map(drop).map_err(refused);
        }
        let has_its_own = if rank == 0 {
            let asks_for_certificates = server.tls.as_ref().is_some_and(|tls| tls.client_ca_file.is_some());
            server.token_file.is_some() || !server.auth.tokens.is_empty() || asks_for_certificates
        } else {
            client.token_file.is_some() || client.tls.as_ref().is_some_and(|tls| tls.certificate_file.is_some())
        };
        let allowed = "a file with a token that every rank reads, such as the output of `openssl rand -hex 32`";
        if has_its_own { Ok(()) } else { Err(FieldError::missing("ranks.token_file", allowed)) }
    }

    /// The port of rank 0.
    pub(crate) fn server_at(&self, place: &RankPlace) -> ServerSettings {
        let unset = ServerSettings::default().listen;
        let listen = if self.server.listen == unset { place.address.clone() } else { self.server.listen.clone() };
        let token_file = self.server.token_file.clone().or_else(|| self.token_file.clone());
        ServerSettings { listen, token_file, ..self.server.clone() }
    }

    /// How the other ranks connect to it.
    pub(crate) fn client(&self) -> ClientSettings {
        let token_file = self.client.token_file.clone().or_else(|| self.token_file.clone());
        ClientSettings { token_file, ..self.client.clone() }
    }

    /// Where the other ranks connect.
    pub(crate) fn url(&self, place: &RankPlace) -> String {
        format!("{}://{}", if self.client.tls.is_some() { "https" } else { "http" }, place.address)
    }
}

/// Where rank 0 listens by the environment of the launcher.
fn master(variable: impl Fn(&str) -> Option<String>) -> Result<String, FieldError> {
    let (Some(host), Some(port)) = (variable("MASTER_ADDR"), variable("MASTER_PORT")) else {
        let allowed = "HOST:PORT of rank 0, or MASTER_ADDR and MASTER_PORT in the environment";
        return Err(FieldError::missing("ranks.address", allowed));
    };
    let wrong = || FieldError::quoted("the environment's MASTER_PORT", &port, "a port, 1 to 65535");
    let port: u16 = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
    // torchrun's agent serves its store there for as long as the ranks run.
    let is_taken = variable("TORCHELASTIC_RUN_ID").is_some();
    Ok(format!("{host}:{}", if is_taken { port.checked_add(1).unwrap_or(port - 1) } else { port }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(settings: &RankSettings, environment: &[(&str, &str)]) -> Result<Option<(usize, usize, String)>, String> {
        let variable =
            |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let found = settings.place(8, variable).map_err(|error| error.to_string())?;
        Ok(found.map(|place| (place.division.rank(), place.division.ranks(), place.address)))
    }

    fn at(count: usize) -> RankSettings {
        RankSettings { count, address: Some("head:7000".into()), ..RankSettings::default() }
    }

    #[test]
    fn a_launcher_says_which_rank_a_process_is() {
        let here = |rank, ranks| Ok(Some((rank, ranks, "head:7000".to_owned())));
        assert_eq!(place(&at(0), &[("SLURM_PROCID", "1"), ("SLURM_NTASKS", "4")]), here(1, 4));
        assert_eq!(place(&at(2), &[("JOB_COMPLETION_INDEX", "1")]), here(1, 2));
        assert_eq!(place(&at(0), &[("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "8")]), here(3, 8));
        // torchrun below Slurm.
        let both = [("RANK", "0"), ("WORLD_SIZE", "2"), ("SLURM_PROCID", "5"), ("SLURM_NTASKS", "6")];
        assert_eq!(place(&at(2), &both), here(0, 2));
        let by_hand = [("RANK", "1"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "10.0.0.1"), ("MASTER_PORT", "29500")];
        let without_address = RankSettings::default();
        assert_eq!(place(&without_address, &by_hand), Ok(Some((1, 2, "10.0.0.1:29500".to_owned()))));
        let torchrun = |port| {
            let more = [("MASTER_PORT", port), ("TORCHELASTIC_RUN_ID", "none")];
            place(&without_address, &[&by_hand[..3], &more].concat()).unwrap().unwrap().2
        };
        assert_eq!([torchrun("29500"), torchrun("65535")], ["10.0.0.1:29501", "10.0.0.1:65534"]);
        let given = [&by_hand[..], &[("TORCHELASTIC_RUN_ID", "none")]].concat();
        assert_eq!(place(&at(2), &given), here(1, 2), "a setting counts first");
        assert_eq!(place(&RankSettings { rank: Some(1), ..at(2) }, &[]), here(1, 2));
        assert_eq!(place(&at(1), &[("RANK", "0")]), Ok(None), "one rank is no ranks");
    }

    #[test]
    fn ranks_that_anybody_could_join_are_refused_also_on_loopback() {
        let refused = |settings: &RankSettings, rank| settings.validate_token(rank).unwrap_err().to_string();
        for rank in 0..2 {
            let error = refused(&at(2), rank);
            assert!(error.starts_with("ranks.token_file is absent, required: a file with a token"), "{error}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let settings = RankSettings { token_file: Some(file.path().into()), ..at(2) };
        std::fs::write(file.path(), "short").unwrap();
        let error = refused(&settings, 1);
        assert!(error.starts_with("ranks.token_file is /") && error.contains("5 characters"), "{error}");
        std::fs::write(file.path(), "0123456789abcdef\n").unwrap();
        for rank in 0..2 {
            assert_eq!(settings.validate_token(rank), Ok(()));
        }
        // Who asks and who shows, each with a file of its own.
        let mut apart = at(2);
        apart.server.token_file = Some("a".into());
        assert_eq!((apart.validate_token(0), apart.validate_token(1).is_err()), (Ok(()), true));
        apart.client.token_file = Some("b".into());
        assert_eq!(apart.validate_token(1), Ok(()));
    }

    #[test]
    fn what_does_not_add_up_is_refused() {
        let slurm = [("SLURM_PROCID", "3"), ("SLURM_NTASKS", "4")];
        for (settings, environment, words) in [
            (at(0), &[][..], "ranks.count is 0, allowed: the number of ranks"),
            (at(2), &slurm, "ranks.count is 2, allowed: 4, the number of the launcher's processes"),
            (at(2), &[("JOB_COMPLETION_INDEX", "2")], "ranks.rank is 2, allowed: 0 to 1, one of 2 ranks"),
            (
                at(0),
                &[("RANK", "0"), ("WORLD_SIZE", "9")],
                "ranks.count is 9, allowed: 1 to learner.compute.gradient_blocks",
            ),
            (at(0), &[("RANK", "x"), ("WORLD_SIZE", "2")], "the environment's RANK is \"x\", allowed: a number"),
            (at(2), &[], "ranks.rank is absent"),
            (
                RankSettings::default(),
                &[("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "a"), ("MASTER_PORT", "x")],
                "the environment's MASTER_PORT is \"x\", allowed: a port",
            ),
            (RankSettings { count: 2, ..RankSettings::default() }, &[("RANK", "0")], "ranks.address is absent"),
        ] {
            let error = place(&settings, environment).unwrap_err();
            assert!(error.starts_with(words), "{error}");
        }
    }
}
