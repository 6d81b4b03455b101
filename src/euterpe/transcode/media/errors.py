"""The one error of media work. Its message is for the requester: it names no path, no command and no secret."""

from __future__ import annotations

from euterpe.model.failures.failure import Category

TRUNCATED = "media.truncated"


class MediaError(Exception):
    """`code` belongs to `media.*` (the source), `encode.*` (the run), `output.*` (what came out) or `tools.*`.

    `signal` is set when the child died of one that we did not send; `retries` bounds how often a retry is worth it,
    None leaves that to the job.
    """

    def __init__(
        self,
        code: str,
        category: Category,
        message: str,
        *,
        output_id: str | None = None,
        exit_code: int | None = None,
        signal: int | None = None,
        retries: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.category = category
        self.message = message
        self.output_id = output_id
        self.exit_code = exit_code
        self.signal = signal
        self.retries = retries

    @property
    def retryable(self) -> bool:
        return self.category in (Category.TEMPORARY, Category.TIMEOUT, Category.SYSTEM)

    def for_output(self, output_id: str | None) -> MediaError:
        """The same error, said of this output; one that already names an output keeps it."""
        return MediaError(
            self.code,
            self.category,
            self.message,
            output_id=self.output_id or output_id,
            exit_code=self.exit_code,
            signal=self.signal,
            retries=self.retries,
        )


def bad_source(code: str, message: str) -> MediaError:
    return MediaError(f"media.{code}", Category.PERMANENT, message)


def truncated(output_id: str | None = None) -> MediaError:
    message = "the source ends before the length that it declares"
    return MediaError(TRUNCATED, Category.PERMANENT, message, output_id=output_id)


def bad_output(code: str, message: str, output_id: str | None = None) -> MediaError:
    return MediaError(f"output.{code}", Category.PERMANENT, message, output_id=output_id)
