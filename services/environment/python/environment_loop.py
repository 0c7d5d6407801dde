# What is asynchronous in an environment: awaited, and cancelled with its episode. The second part of evenkeel_environment.py.


async def awaited(answer):
    try:
        return await answer
    except ToolError as error:
        return error


class Answers(list):
    """Answers to the calls of a turn. Those of `async def` tools are still to come: `await` gives all of them."""

    @classmethod
    def to(cls, calls, carry_out):
        async def later(call):
            answer = carry_out(call)
            return await answer if inspect.isawaitable(answer) else answer

        answers = cls()
        for call in calls:
            # In the order of the calls: none before the one before it has ended.
            answers.append(later(call) if any(map(inspect.isawaitable, answers)) else carry_out(call))
        return answers

    def __await__(self):
        return LOOP.all_of(list(self)).__await__()


class EventLoop:
    """Runs what is asynchronous, in the episode that it belongs to: one loop for the process, so that episodes may share clients."""

    def __init__(self):
        self.loop, self.tasks = None, {}
        self.episode = contextvars.ContextVar("episode", default=None)

    def finished(self, answer):
        """An answer, once all of it is there."""
        if not any(map(inspect.isawaitable, answer if isinstance(answer, (list, tuple)) else [answer])):
            return answer
        import asyncio

        if self.loop is None:
            self.loop = asyncio.new_event_loop()
            self.loop.set_task_factory(self.begin)
        try:
            return self.loop.run_until_complete(self.all_of(answer))
        except asyncio.CancelledError:
            raise RuntimeError("what it waited for was cancelled") from None

    async def all_of(self, answer):
        if inspect.isawaitable(answer) and not isinstance(answer, Answers):
            answer = await answer
        if isinstance(answer, (list, tuple)):
            done = [await one if inspect.isawaitable(one) else one for one in answer]
            answer = tuple(done) if isinstance(answer, tuple) else done
        return answer

    def begin(self, loop, coroutine, **options):
        import asyncio

        task = asyncio.Task(coroutine, loop=loop, **options)
        self.tasks.setdefault(self.episode.get(), weakref.WeakSet()).add(task)
        return task

    def end(self, episode):
        """Cancels what an episode has left, and names it."""
        left = [task for task in self.tasks.pop(episode, ()) if not task.done()]
        if not left:
            return
        import asyncio

        for task in left:
            task.cancel()
        _, running = self.loop.run_until_complete(asyncio.wait(left, timeout=MAX_CANCEL_S))
        for task in left:
            what = "does not end though it was cancelled" if task in running else "was cancelled"
            name = getattr(task.get_coro(), "__qualname__", task.get_name())
            print(f"the episode is over: {name}, which still ran, {what}", file=sys.stderr)
        # It has the wait above.
        self.tasks.pop(episode, None)


LOOP = EventLoop()
