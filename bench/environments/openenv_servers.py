"""Two environments on the package `openenv` itself, to try the adapter with: an echo whose actions are tools, and a game whose actions are texts.

    pip install openenv==0.10.0
    python bench/environments/openenv_servers.py echo 8000
    python bench/environments/openenv_servers.py game 8001

`environment = "openenv:ws://localhost:8000"` plays them.
"""

import random
import sys
from typing import Optional

import uvicorn
from fastmcp import FastMCP
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Action, Observation, State

MOST = 1024


class Echo(MCPEnvironment):
    """Says what it is told, and gives the reward for the word `hello`."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        server = FastMCP("echo")

        @server.tool
        def echo(message: str) -> str:
            """Says the message."""
            return message

        super().__init__(server)
        self._state = State(episode_id=None, step_count=0)

    def reset(self, seed: Optional[int] = None, episode_id: Optional[str] = None, **kwargs) -> Observation:
        self._state = State(episode_id=episode_id, step_count=0)
        return Observation(done=False)

    def _step_impl(self, action, timeout_s=None, **kwargs) -> Observation:
        return Observation(done=False, metadata={"error": f"an action of the type {type(action).__name__}"})

    async def step_async(self, action, timeout_s=None, **kwargs) -> Observation:
        self._state.step_count += 1
        seen = await super().step_async(action, timeout_s=timeout_s, **kwargs)
        if isinstance(action, CallToolAction) and action.arguments.get("message") == "hello":
            seen.reward = 1.0
        return seen

    @property
    def state(self) -> State:
        return self._state


class Guess(Action):
    text: str


class Answer(Observation):
    text: str = ""


class Game(Environment):
    """A number from 1 to 20 is to be guessed, in words."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self.number, self._state = 1, State(episode_id=None, step_count=0)

    def reset(self, seed: Optional[int] = None, episode_id: Optional[str] = None, number: Optional[int] = None, **kwargs) -> Answer:
        self.number = random.Random(seed).randint(1, 20) if number is None else number
        self._state = State(episode_id=episode_id, step_count=0)
        return Answer(text="I think of a number from 1 to 20.")

    def step(self, action: Guess, timeout_s=None, **kwargs) -> Answer:
        self._state.step_count += 1
        words = "".join(c if c.isdigit() else " " for c in action.text).split()
        if not words:
            return Answer(text="Say a number.")
        guess = int(words[-1])
        if guess == self.number:
            return Answer(text="Right.", reward=1.0, done=True)
        return Answer(text="Higher." if guess < self.number else "Lower.", reward=0.0)

    @property
    def state(self) -> State:
        return self._state


def main():
    kind, port = sys.argv[1], int(sys.argv[2])
    if kind == "echo":
        app = create_fastapi_app(Echo, CallToolAction, CallToolObservation, max_concurrent_envs=MOST)
    else:
        app = create_fastapi_app(Game, Guess, Answer, max_concurrent_envs=MOST)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main()
