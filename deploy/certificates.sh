#!/usr/bin/env bash
# An authority, a certificate for each service, and a key for the engines, for deploy/compose.tls.yml.
#
#   deploy/certificates.sh [FOLDER]        FOLDER: deploy/certificates, or $EVENKEEL_CERTIFICATES
#
# Each service gets a folder of its own with ca.pem, certificate.pem and key.pem (`rank` is for the other ranks of a learner, `weights` for agents that
# fetch weights); `client` is for people who start and stop runs, `reader` for
# those who watch. A certificate names its service, as
# clients in the network do (`reward`), and localhost, as clients on this machine do. Those of people are for clients alone. Certificates are valid for $DAYS days (365). Run again,
# it makes new certificates with the same authority. Whoever has authority/key.pem can make more: keep it elsewhere.
#
# Keys are readable to one user. Containers run as user 10001: run as root, the script gives that user the folders of services; run as somebody
# else, it leaves them to whoever ran it and says which command gives them away. Pods get them as Secrets, for which nobody else needs them.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-${EVENKEEL_CERTIFICATES:-deploy/certificates}}
days=${DAYS:-365}
user=10001
services=(generation reward environment learner rank weights orchestrator gateway client reader)
command -v openssl >/dev/null || { echo "certificates.sh needs openssl" >&2; exit 1; }

umask 077
# What was given away can be renewed by root alone.
for name in authority engine "${services[@]}"; do
  for path in "$folder/$name" "$folder/$name"/*; do
    [ ! -e "$path" ] || { [ -r "$path" ] && [ -w "$path" ]; } || {
      echo "$path cannot be written by $(id -un 2>/dev/null || id -u): it belongs to user $(stat -c %u "$path" 2>/dev/null || stat -f %u "$path"). Run this as root: sudo $0 $folder" >&2
      exit 1
    }
  done
done
mkdir -p "$folder/authority" "$folder/engine"
authority=$folder/authority
if [ ! -s "$authority/key.pem" ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 3650 -subj "/CN=Evenkeel" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign \
    -keyout "$authority/key.pem" -out "$authority/ca.pem" 2>/dev/null
fi

# Written beside and moved, so that a service that reads meanwhile finds the old or the new one.
for service in "${services[@]}"; do
  to=$folder/$service
  mkdir -p "$to"
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -subj "/CN=$service" -keyout "$to/key.new" -out "$to/request" 2>/dev/null
  openssl x509 -req -in "$to/request" -CA "$authority/ca.pem" -CAkey "$authority/key.pem" -days "$days" -out "$to/certificate.new" -extfile <(
    echo "basicConstraints=CA:FALSE"
    echo "keyUsage=digitalSignature"
    case $service in
      client | reader)
        echo "extendedKeyUsage=clientAuth"
        echo "subjectAltName=DNS:$service"
        ;;
      *)
        # Servers ask for their own health as clients.
        echo "extendedKeyUsage=serverAuth,clientAuth"
        echo "subjectAltName=DNS:$service,DNS:localhost,IP:127.0.0.1"
        ;;
    esac
  ) 2>/dev/null
  rm "$to/request"
  cp "$authority/ca.pem" "$to/ca.pem"
  mv "$to/certificate.new" "$to/certificate.pem"
  mv "$to/key.new" "$to/key.pem"
done
[ -s "$folder/engine/engine-key" ] || openssl rand -hex 32 >"$folder/engine/engine-key"
cp "$folder/engine/engine-key" "$folder/generation/engine-key"

# Compose mounts one folder of these for each service.
chmod 755 "$folder"
chmod -R go= "$authority"
given=("$folder/engine")
for service in "${services[@]}"; do
  chmod -R go= "$folder/$service"
  # Those of people belong to whoever runs this.
  case $service in client | reader) ;; *) given+=("$folder/$service") ;; esac
done
chmod -R go= "$folder/engine"
if [ "$(id -u)" = 0 ]; then
  chown -R "$user:$user" "${given[@]}"
else
  echo "containers run as user $user and cannot read these keys yet: sudo chown -R $user:$user ${given[*]@Q}" >&2
fi
echo "certificates for ${services[*]} in $folder, valid for $days days"
