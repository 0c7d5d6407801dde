#!/usr/bin/env python3
"""What deploy/certificates.sh leaves behind can be read by one user, whoever runs it and however open the folder was before."""

import os
import pathlib
import stat
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "deploy" / "certificates.sh"
# Somebody who may do nothing, and the user of the containers.
NOBODY, CONTAINERS = 65534, 10001
PEOPLE = {"authority", "client", "reader"}


class Certificates(unittest.TestCase):
    def made(self, user):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(subprocess.run, ["rm", "-rf", folder])
        os.chown(folder, user, user)
        command = self.command(user, folder / "new")

        def run():
            return subprocess.run(command, check=True, capture_output=True, text=True, umask=0).stderr

        run()
        # As earlier versions of the script left them.
        for path in (folder / "new").rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        return folder / "new", run()

    def command(self, user, folder):
        command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user != os.geteuid() else []
        # A script of a clone that only its owner can enter.
        return [*command, "bash", "-c", SCRIPT.read_text().replace('cd "$(dirname "$0")/.."', "cd /"), SCRIPT.name, folder]

    def check(self, folder, owner):
        keys = [path for path in folder.rglob("*") if path.is_file()]
        self.assertTrue({"key.pem", "engine-key"} <= {path.name for path in keys})
        for path in keys:
            of = path.parent.name
            found = path.stat()
            self.assertEqual(stat.S_IMODE(found.st_mode) & 0o177, 0, path)
            self.assertEqual(stat.S_IMODE(path.parent.stat().st_mode) & 0o077, 0, path.parent)
            self.assertEqual(found.st_uid, os.geteuid() if of in PEOPLE and os.geteuid() == 0 and owner == CONTAINERS else owner, path)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_root_gives_the_folders_of_services_to_the_user_of_the_containers(self):
        folder, said = self.made(0)
        self.check(folder, CONTAINERS)
        self.assertNotIn("chown", said)

    def test_somebody_else_keeps_them_and_is_told_how_to_give_them_away(self):
        user = NOBODY if os.geteuid() == 0 else os.geteuid()
        folder, said = self.made(user)
        self.check(folder, user)
        self.assertIn(f"sudo chown -R {CONTAINERS}:{CONTAINERS} ", said)
        self.assertIn(f"{folder}/learner", said)
        self.assertNotIn(f"{folder}/client", said)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_somebody_else_is_told_who_may_renew_what_was_given_away(self):
        for given in ("learner", "engine", "engine/engine-key"):
            folder, _ = self.made(NOBODY)
            before = (folder / "generation" / "certificate.pem").read_bytes()
            os.chown(folder / given, CONTAINERS, CONTAINERS)
            run = subprocess.run(self.command(NOBODY, folder), capture_output=True, text=True)
            self.assertEqual(run.returncode, 1)
            self.assertIn(f"{folder / given} cannot be written by ", run.stderr)
            self.assertIn(f"belongs to user {CONTAINERS}", run.stderr)
            self.assertEqual((folder / "generation" / "certificate.pem").read_bytes(), before, "nothing was begun")


if __name__ == "__main__":
    unittest.main()
