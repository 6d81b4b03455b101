"""Playing the demo: the steps on a stage, then the proofs, and everybody goes home whatever happens."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from euterpe.cli.demo.app import queue
from euterpe.cli.demo.console import open_stage
from euterpe.cli.demo.folder import encode_a_folder, start_the_pipeline
from euterpe.cli.demo.processes import DemoProcesses
from euterpe.cli.demo.queue_proofs import PROOFS
from euterpe.cli.demo.steps import STEPS, Steps
from euterpe.cli.demo.transcoding_proofs import PROOFS as TRANSCODING_PROOFS
from euterpe.cli.demo.transcoding_steps import transcode


async def perform(folder: Path, url: str) -> bool:
    """Whether every proof held."""
    processes = DemoProcesses(folder, url)
    async with queue, AsyncExitStack() as inside:
        try:
            with open_stage() as stage:
                steps = Steps(processes, stage)
                inside.enter_context(steps.receiver.listening())
                for heading, step in STEPS:
                    if heading:
                        stage.heading(heading)
                    await step(steps)
                music = await start_the_pipeline(steps)
                stage.heading("A sound is transcoded, its worker killed, its credentials let run out")
                media = await transcode(steps)
                proofs = [prove(steps) for prove in PROOFS]
                if media is not None:
                    proofs += [prove(media) for prove in TRANSCODING_PROOFS]
                if music is not None:
                    stage.heading("A folder of music becomes a folder of encodes")
                    proofs.append(await encode_a_folder(steps, music))
                stage.heading("What this run proved, read back from the database")
                for proof in proofs:
                    stage.proof(proof.claim, holds=proof.holds)
        finally:
            await processes.stop_all()
    return all(proof.holds for proof in proofs)
