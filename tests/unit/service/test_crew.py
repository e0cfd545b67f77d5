from __future__ import annotations

import asyncio
import threading

import pytest

from foretide.service.crew import Crew


def test_jobs_are_done_beside_the_loop_and_their_errors_come_back() -> None:
    async def both() -> tuple[str, type[BaseException]]:
        crew: Crew[str] = Crew(1, "test")
        name = await crew.submit(lambda: threading.current_thread().name)
        with pytest.raises(ZeroDivisionError) as error:
            await crew.submit(lambda: str(1 // 0))
        assert crew.busy == 0
        crew.close()
        return name, error.type

    assert asyncio.run(both()) == ("test", ZeroDivisionError)


def test_jobs_that_wait_together_are_all_done() -> None:
    async def many() -> list[int]:
        crew: Crew[int] = Crew(2, "test")
        jobs = [crew.submit(lambda number=number: number * number) for number in range(50)]  # type: ignore[misc]
        assert crew.busy == 50
        found = await asyncio.gather(*jobs)
        crew.close()
        return list(found)

    assert asyncio.run(many()) == [number * number for number in range(50)]


def test_a_job_that_nobody_waits_for_counts_until_it_is_done() -> None:
    let_go = threading.Event()

    async def give_up() -> list[int]:
        crew: Crew[bool] = Crew(1, "test")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await crew.submit(lambda: let_go.wait(20))
        counts = [crew.busy]
        let_go.set()
        assert await crew.submit(lambda: True)
        counts.append(crew.busy)
        crew.close()
        return counts

    assert asyncio.run(give_up()) == [1, 0]


def test_a_loop_that_is_over_is_not_missed() -> None:
    started, let_go = threading.Event(), threading.Event()
    crew: Crew[bool] = Crew(1, "test")

    async def leave() -> None:
        crew.submit(lambda: started.set() or let_go.wait(20))
        await asyncio.to_thread(started.wait, 20)

    asyncio.run(leave())
    let_go.set()
    crew.close()
    for thread in crew._threads:
        thread.join(20)
        assert not thread.is_alive()
