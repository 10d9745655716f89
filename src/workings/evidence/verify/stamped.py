"""Level 0: time stamps are of exactly these signatures, and an authority that the reader trusts made them."""

from collections.abc import Iterator

from workings.errors import RecordError
from workings.evidence.attest import timestamp
from workings.evidence.attest.timestamp import STAMP_NAME
from workings.evidence.verify.attested import read_attested
from workings.evidence.verify.checks import check, each_run, failed, judged, not_checked
from workings.evidence.verify.record import Record, Unit
from workings.evidence.verify.result import CheckFinding
from workings.record.layout import ATTEST

NO_LIBRARY = f"the library for time stamps is not installed: {timestamp.INSTALL}"


@check("attestation.time", level=0, title="every time stamp is of the signature beside it, by an authority",
       example="a time stamp put beside another signature, which was made a year later")
def times(record: Record) -> Iterator[CheckFinding]:
    """Each stamp's digest against the signature's bytes, and its certificate against those of `--authority`."""
    def find(run: Unit) -> Iterator[CheckFinding]:
        names = sorted(name for name, entry in record.attest(run).items()
                       if entry.kind == "file" and STAMP_NAME.fullmatch(name))
        if not names:
            if record.authorities:
                yield failed("no time stamp, and a certificate of an authority was given", run)
            return
        if not timestamp.is_available():
            yield not_checked(NO_LIBRARY, run, blocking=bool(record.authorities))
            return
        roots = [root for data in record.authorities for root in timestamp.certificates(data)]
        problems, said = [], []
        for name in names:
            try:
                response = timestamp.response_in(read_attested(record, run, name))
                stamp = timestamp.stamp_of(response, read_attested(record, run, f"{name[:3]}.dsse.json"), roots)
                said.append(f"{name[:3]}.dsse.json existed before {stamp.text}")
            except RecordError as error:
                problems.append(f"{ATTEST}/{name}: {error}")
        if problems or roots:
            yield judged(problems, "; ".join(said), run)
        else:
            yield not_checked(f"{'; '.join(said)}: said by the stamp itself, no certificate was given to trust "
                              "(--authority)", run, blocking=False)
    return each_run(record, find)
