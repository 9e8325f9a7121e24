"""The front door: `invoke --list`. Each task names a command's options and hands them on; no logic lives here."""

from __future__ import annotations

from invoke.context import Context
from invoke.tasks import task

from slipway.commands.options import CONFIG_KEYS, SELECTORS, LaunchTask, configuring, selecting
from slipway.spec.select import Selector

_JSON = {"json": "print one JSON document"}
_OWN = {"buildspec": "a buildspec file of your own, anywhere: its images join the matrix"}
_BASE = {
    "base": "`bootstrap`, or REF@sha256:DIGEST",
    "snapshot": "freeze Debian's packages: a time or an archive's URL",
}


@task(name="list", help={**SELECTORS, **_OWN, **_JSON})
@selecting
def list_(c: Context, selector: Selector, buildspec: str | None = None, json: bool = False) -> None:
    """List the images of the matrix."""
    from slipway.commands import matrix

    matrix.list_images(selector, json, buildspec=buildspec)


@task(help={**SELECTORS, **_OWN, **_BASE, "layers": "show which layers images share, as last built", **_JSON})
@selecting
def plan(
    c: Context,
    selector: Selector,
    layers: bool = False,
    buildspec: str | None = None,
    base: str | None = None,
    snapshot: str | None = None,
    json: bool = False,
) -> None:
    """Show the graph of stages, and every excluded image with its reason."""
    from slipway.commands import matrix

    matrix.plan(selector, json, layers, buildspec=buildspec, base=base, snapshot=snapshot)


@task(help={"image": "an image's ID, or any reference of the engine", **_JSON})
def size(c: Context, image: str, json: bool = False) -> None:
    """Explain an image's size by layer and by package."""
    from slipway.commands import size as command

    command.size(image, json)


@task(help={**SELECTORS, **_OWN, **_BASE, "output": "the folder to write; default: .slipway/render", **_JSON})
@selecting
def render(
    c: Context,
    selector: Selector,
    output: str = "",
    buildspec: str | None = None,
    base: str | None = None,
    snapshot: str | None = None,
    json: bool = False,
) -> None:
    """Write a folder that builds with `docker buildx bake` and without Slipway."""
    from slipway.commands import matrix

    matrix.render(selector, output, json, buildspec=buildspec, base=base, snapshot=snapshot)


@task(
    help={
        **SELECTORS,
        **_OWN,
        "upgrade": "take the newest versions",
        "check": "only say whether locks are current",
        **_JSON,
    }
)
@selecting
def lock(
    c: Context,
    selector: Selector,
    buildspec: str | None = None,
    upgrade: bool = False,
    check: bool = False,
    json: bool = False,
) -> None:
    """Resolve stacks to hashed locks and show what changed."""
    from slipway.commands import locks

    locks.lock(selector, upgrade, check, json, buildspec=buildspec)


@task(help={**SELECTORS, **_JSON})
@selecting
def outdated(c: Context, selector: Selector, json: bool = False) -> None:
    """Show which newer versions exist, and what they would change."""
    from slipway.commands import locks

    locks.outdated(selector, json)


@task(
    help={
        "framework": "as named in buildspec/",
        "version": "the version to add; of transformers for Hugging Face images",
        "processor": "cpu (default) | gpu: whose newest stack gives the form",
        **_JSON,
    }
)
def add(c: Context, framework: str = "", version: str = "", processor: str = "", json: bool = False) -> None:
    """Add a version to the matrix: its entry in buildspec/ and its locks."""
    from slipway.commands import locks

    locks.add(framework, version, processor, json)


@task(
    help={
        **SELECTORS,
        **_OWN,
        **_BASE,
        "builder": "a buildx builder or docker context to build on",
        "dry-run": "show what would be built",
        "no-cache": "build every step anew",
        **_JSON,
    }
)
@selecting
def build(
    c: Context,
    selector: Selector,
    builder: str | None = None,
    buildspec: str | None = None,
    base: str | None = None,
    snapshot: str | None = None,
    dry_run: bool = False,
    no_cache: bool = False,
    json: bool = False,
) -> None:
    """Build images: `invoke build --framework pytorch`."""
    from slipway.commands import matrix

    flags = {"builder": builder, "buildspec": buildspec, "base": base, "snapshot": snapshot}
    matrix.build(selector, dry_run, no_cache, json, **flags)


@task(help={"json": "print one JSON document"})
def exit_codes(c: Context, json: bool = False) -> None:
    """Show what each exit code means."""
    from slipway.commands import care

    care.exit_codes(json)


@task(
    help={
        **SELECTORS,
        "registry": "one of release.yml, or `local`",
        "number": "exactly this -vN, not the next free one",
        **_JSON,
    }
)
@selecting
def push(
    c: Context, selector: Selector, registry: str | None = None, number: str | None = None, json: bool = False
) -> None:
    """Push verified images, by digest, to the registries of release.yml."""
    from slipway.commands import publish

    publish.push(selector, registry, number, json)


@task(
    iterable=["untested_gpu"],
    help={
        **SELECTORS,
        "plan": "show every step and why, and do nothing",
        "stage": "end when everything is pushed by digest: nothing is signed, no tag moves",
        "untested_gpu": "release this GPU image although no GPU has run it; may be repeated",
        "notes": "a text for the ledger, instead of the notes of release.yml",
        **_JSON,
    },
)
@selecting
def release(
    c: Context,
    selector: Selector,
    plan: bool = False,
    stage: bool = False,
    untested_gpu: list[str] | None = None,
    notes: str = "",
    json: bool = False,
) -> None:
    """Release images: build, prove, push, scan, sign, replicate, and only then name them, everywhere."""
    from slipway.commands import release as releasing

    releasing.release(selector, plan, stage, untested_gpu or [], notes, json)


@task(help={"image": "only this one, whole: its ID, tag, URI or digest", **_JSON})
def releases(c: Context, image: str = "", json: bool = False) -> None:
    """Show what was released, from the ledger."""
    from slipway.commands import release as releasing

    releasing.releases(image, json)


@task(
    positional=["before", "after"],
    iterable=["allow"],
    help={
        "before": "a released image: its tag, URI or digest",
        "after": "another one",
        "allow": "a package that may be older than before; may be repeated",
        **_JSON,
    },
)
def changes(c: Context, before: str, after: str, allow: list[str], json: bool = False) -> None:
    """Show what differs between two releases: packages, size, labels, vulnerabilities."""
    from slipway.commands import release as releasing

    releasing.changes(before, after, allow, json)


@task(
    positional=["image"],
    help={
        "image": "a released image: its ID (then the newest), tag, URI or digest",
        "to": "the release to go back to; default: the one before",
        "reason": "why nobody should use it",
        **_JSON,
    },
)
def rollback(c: Context, image: str, to: str = "", reason: str = "", json: bool = False) -> None:
    """Move the aliases of a release back to an earlier one, in every registry."""
    from slipway.commands import release as releasing

    releasing.rollback(image, to, reason, json)


@task(
    help={
        "framework": "as named in buildspec/",
        "version": "a released version, whole",
        "on": "the last day of its support: 2026-11-30",
        "reason": "a text for the ledger",
        **_JSON,
    }
)
def eol(c: Context, framework: str = "", version: str = "", on: str = "", reason: str = "", json: bool = False) -> None:
    """Show when the support of released versions ends, or write down when one's does."""
    from slipway.commands import release as releasing

    releasing.eol(framework, version, on, reason, json)


@task(
    positional=["image"],
    help={
        "image": "a pushed image: its URI, tag or digest",
        "reason": "why nobody should use it",
        "undo": "let it be found again",
        **_JSON,
    },
)
def yank(c: Context, image: str, reason: str = "", undo: bool = False, json: bool = False) -> None:
    """Take back an image that was pushed: lookups no longer lead to it."""
    from slipway.commands import publish

    publish.yank(image, reason, undo, json)


@task(
    help={
        "framework": "as named in buildspec/",
        "version": "a full version, or its beginning such as 2.13",
        "scope": "training (default) | inference",
        "job": "the same as --scope",
        "processor": "cpu (default) | gpu",
        "python": "3.11 or py311",
        "instance_type": "decides between cpu and gpu",
        "region": "AWS region",
        "host": "of the registry, where several have it",
        "at": "as it was on that day: 2026-11-30",
        "digest": "HOST/REPOSITORY@sha256:… instead of the tag",
        "format": "uri (default) | json | accelerate | sdk2 | sdk3",
        **_JSON,
    },
    auto_shortflags=False,
)
def image_uri(
    c: Context,
    framework: str = "",
    scope: str | None = None,
    job: str | None = None,
    version: str | None = None,
    processor: str | None = None,
    python: str | None = None,
    instance_type: str | None = None,
    region: str | None = None,
    host: str | None = None,
    at: str | None = None,
    digest: bool = False,
    format: str = "uri",
    json: bool = False,
) -> None:
    """Print the URI of a pushed image, the value of image_uri; say whether it is still supported, and what is newer."""
    from slipway.commands import lookup

    lookup.image_uri(
        json,
        lookup.Options(
            framework=framework,
            scope=scope,
            job=job,
            version=version,
            processor=processor,
            python=python,
            instance_type=instance_type,
            region=region,
            host=host,
            at=at,
            digest=digest,
            format=format,
        ),
    )


@task(help={"stop": "end it; what was pushed stays", **_JSON})
def registry(c: Context, stop: bool = False, json: bool = False) -> None:
    """Start the project's own registry on loopback."""
    from slipway.commands import publish

    publish.registry(stop, json)


@task(
    help={
        "os": "debian12 | debian13",
        "record": "accept its Debian packages into buildspec/base/",
        "snapshot": "a time or an archive URL to take the packages from",
        "json": "print one JSON document",
    }
)
def base(
    c: Context, os: str = "debian12", record: bool = False, snapshot: str | None = None, json: bool = False
) -> None:
    """Make the base root filesystem and show how its Debian packages differ from the record."""
    from slipway.commands import foundation

    foundation.base(os, record, json, snapshot)


@task(
    iterable=["env", "ulimit"],
    help={
        "image": "an image's ID, or any reference of the engine",
        "source": "folder of the training code",
        "entry": "script in it to run, e.g. train.py",
        "inputs": "TSV file: channel_name, data_location (a path, file:///… or s3://…)",
        "metrics": "TSV file: metric_name, metric_regex",
        "hyperparameters": "KEY=VALUE,KEY=VALUE or a JSON file",
        "env": "NAME=VALUE, or NAME to pass it on; may be given again",
        "output": "folder of model.tar.gz, output.tar.gz and logs/; default: .slipway/jobs/JOB",
        "time_limit": "seconds until the job is stopped",
        "hosts": "number of containers, on a network of their own",
        "instance_groups": "NAME=TYPE:COUNT,… of a heterogeneous cluster, in place of --hosts",
        "checkpoints": "folder or s3://… that checkpoints are restored from and kept in",
        "spot_interrupt": "seconds after which the job is interrupted as on a spot instance, and starts again",
        "warm_pool": "name of a pool whose cache folder outlives the job",
        "gpus": "all, or how many; refused where the engine has none",
        "shm_size": "of /dev/shm, such as 512m or 8g; default: 2g",
        "ulimit": "NAME=SOFT:HARD, -1 for no limit; may be given again",
        "plot": "file of the metrics' curves: .svg, or .png and .pdf where matplotlib is installed",
        "json": "print one JSON document",
    },
)
def run(
    c: Context,
    image: str,
    env: list[str],
    ulimit: list[str],
    source: str = "",
    entry: str = "",
    inputs: str = "",
    metrics: str = "",
    hyperparameters: str = "",
    output: str = "",
    time_limit: str = "86400",
    hosts: str = "1",
    instance_groups: str = "",
    checkpoints: str = "",
    spot_interrupt: str = "",
    warm_pool: str = "",
    gpus: str = "",
    shm_size: str = "",
    plot: str = "",
    json: bool = False,
) -> None:
    """Run a training job on this machine as SageMaker would."""
    from slipway.commands import run as command

    command.run(
        json,
        command.Options(
            image=image,
            source=source,
            entry=entry,
            inputs=inputs,
            metrics=metrics,
            hyperparameters=hyperparameters,
            env=tuple(env),
            output=output,
            time_limit=time_limit,
            hosts=hosts,
            instance_groups=instance_groups,
            checkpoints=checkpoints,
            spot_interrupt=spot_interrupt,
            warm_pool=warm_pool,
            gpus=gpus,
            shm_size=shm_size,
            ulimit=tuple(ulimit),
            plot=plot,
        ),
    )


@task(
    iterable=["env"],
    help={
        "image": "an image's ID, or any reference of the engine",
        "model": "model.tar.gz, the folder that it would hold, or its s3:// location",
        "source": "folder of the inference code; goes into the model's `code` folder",
        "entry": "script in it, default inference.py",
        "env": "NAME=VALUE, or NAME to pass it on; may be given again",
        "models": "a multi-model endpoint: the folder or s3:// prefix below which its archives are",
        "name": "the endpoint's name for clients",
        "port": "loopback port of the SageMaker Runtime API",
        "memory_mb": "the container's memory",
        "serverless": "as a serverless endpoint: read-only root, 4 MB bodies, 2048 MB unless --memory-mb is given",
        "send": "send this file's content as one request, print the answer, and end",
        "content_type": "of what --send sends",
        "accept": "what --send asks for",
        "target": "the model of a multi-model endpoint that --send asks",
        "async_output": "s3:// prefix of the answers to asynchronous requests, which are taken then",
        "async_concurrent": "asynchronous requests at once, default 1",
        "output": "folder of logs/; default: .slipway/endpoints/NAME",
        **_JSON,
    },
    auto_shortflags=False,
)
def serve(
    c: Context,
    image: str,
    env: list[str],
    model: str = "",
    source: str = "",
    entry: str = "inference.py",
    models: str = "",
    name: str = "local",
    port: str = "8080",
    memory_mb: str = "",
    serverless: bool = False,
    send: str = "",
    content_type: str = "application/json",
    accept: str = "",
    target: str = "",
    async_output: str = "",
    async_concurrent: str = "",
    output: str = "",
    json: bool = False,
) -> None:
    """Serve a model on this machine as SageMaker would, until Ctrl-C."""
    from slipway.commands import hosting

    hosting.serve(
        json,
        hosting.ServedOptions(
            image=image, model=model, source=source, entry=entry, env=tuple(env), memory_mb=memory_mb, output=output
        ),
        hosting.ServeOptions(
            name=name,
            port=port,
            models=models,
            serverless=serverless,
            send=send,
            content_type=content_type,
            accept=accept,
            target=target,
            async_output=async_output,
            async_concurrent=async_concurrent,
        ),
    )


@task(
    iterable=["env"],
    help={
        "image": "an image's ID, or any reference of the engine",
        "inputs": "a file, a folder, or an s3:// prefix",
        "model": "model.tar.gz, the folder that it would hold, or its s3:// location",
        "source": "folder of the inference code; goes into the model's `code` folder",
        "entry": "script in it, default inference.py",
        "env": "NAME=VALUE, or NAME to pass it on; may be given again",
        "content_type": "of the inputs",
        "accept": "what the container is asked for",
        "split": "None | Line | RecordIO | TFRecord",
        "strategy": "SingleRecord | MultiRecord; default: the container's choice",
        "assemble": "None | Line",
        "join": "None | Input",
        "compression": "None | Gzip",
        "max_payload_mb": "0 to 100; default: the container's choice",
        "max_concurrent": "requests at once; default: the container's choice",
        "retries": "0 to 3",
        "time_limit": "seconds for one request",
        "memory_mb": "the container's memory",
        "output": "folder of the results and logs/; default: .slipway/transforms/JOB",
        **_JSON,
    },
    auto_shortflags=False,
)
def transform(
    c: Context,
    image: str,
    inputs: str,
    env: list[str],
    model: str = "",
    source: str = "",
    entry: str = "inference.py",
    content_type: str = "",
    accept: str = "",
    split: str = "None",
    strategy: str = "",
    assemble: str = "None",
    join: str = "None",
    compression: str = "None",
    max_payload_mb: str = "",
    max_concurrent: str = "",
    retries: str = "3",
    time_limit: str = "600",
    memory_mb: str = "",
    output: str = "",
    json: bool = False,
) -> None:
    """Run a batch transform job on this machine as SageMaker would."""
    from slipway.commands import hosting

    hosting.transform(
        json,
        hosting.ServedOptions(
            image=image, model=model, source=source, entry=entry, env=tuple(env), memory_mb=memory_mb, output=output
        ),
        hosting.TransformOptions(
            inputs=inputs,
            content_type=content_type,
            accept=accept,
            split=split,
            strategy=strategy,
            assemble=assemble,
            join=join,
            compression=compression,
            max_payload_mb=max_payload_mb,
            max_concurrent=max_concurrent,
            retries=retries,
            time_limit=time_limit,
        ),
    )


@task(
    iterable=["check"],
    help={
        **SELECTORS,
        **_OWN,
        "image": "any image of the engine, whoever built it, instead of selectors",
        "check": "only this check or group, with what it needs; may be repeated; files no verdict",
        "force": "run the checks although this image has their verdict",
        "junit": "write JUnit XML to this file",
        "html": "write a report for people to this file",
        **_JSON,
    },
)
@selecting
def verify(
    c: Context,
    selector: Selector,
    image: str | None = None,
    buildspec: str | None = None,
    check: list[str] | None = None,  # any other default would take --check apart, letter by letter
    force: bool = False,
    junit: str | None = None,
    html: str | None = None,
    json: bool = False,
) -> None:
    """Prove images against the contract, and file the verdicts."""
    from slipway.commands import verify as proving

    proving.verify(selector, image, check or [], force, junit, html, json, buildspec=buildspec)


@task(
    iterable=["step"],
    help={
        **SELECTORS,
        "image": "any image of the engine, whoever built it, instead of selectors",
        "device": "cpu | cuda; default: what the image is for",
        "step": "only this step or group; may be repeated; files nothing",
        **_JSON,
    },
)
@selecting
def smoke(
    c: Context,
    selector: Selector,
    image: str | None = None,
    device: str | None = None,
    step: list[str] | None = None,
    json: bool = False,
) -> None:
    """Try the framework of images on a device (a GPU image on all GPUs), and file what it measured."""
    from slipway.commands import smoke as trying

    trying.smoke(selector, image, device, step or [], json)


@task(help={"kind": "training", "markdown": "as a Markdown document", **_JSON})
def checks(c: Context, kind: str | None = None, markdown: bool = False, json: bool = False) -> None:
    """Show the register of checks: what each is for, and how to mend it."""
    from slipway.commands import verify as proving

    proving.checks(kind, markdown, json)


@task(
    help={
        "check": "examine this configuration and its TSV files instead",
        "answers": "take the answers from this file: YAML or JSON, keys as in a configuration",
        "output": "file to write, JSON if it ends in .json; default: sagemaker.yaml; with --check: the mended file",
        "force": "write over a file that exists",
        **CONFIG_KEYS,
        **_JSON,
    },
    auto_shortflags=False,
)
@configuring
def config(
    c: Context,
    keys: dict[str, str | None],
    check: str = "",
    answers: str = "",
    output: str = "",
    force: bool = False,
    json: bool = False,
) -> None:
    """Write an accelerate configuration for SageMaker, by questions, flags or a file; or check one."""
    from slipway.commands import clients

    clients.config(json, check, answers, output, force, keys)


@task(
    positional=["log"],
    help={"log": "a job's log", "try": "TSV file: metric_name, metric_regex", **_JSON},
)
def metrics(c: Context, log: str, try_: str = "", json: bool = False) -> None:
    """Show what metric definitions would read from a log: invoke metrics --try metrics.tsv LOGFILE."""
    from slipway.commands import clients

    clients.metrics(json, try_, log)


@task(
    klass=LaunchTask,
    positional=["config", "script"],
    help={
        "config": "an accelerate configuration for SageMaker",
        "script": "the Python script; its own arguments come behind `--`",
        "local": "run the job on this machine",
        "dry_run": "only show the request, as JSON",
        "detach": "start the job and leave it; prints its name",
        "wait": "follow this job to its end, wherever it was started",
        "emit": "print a program that starts the job instead: sdk2 | sdk3 | boto3",
        "official": "where image_uri is empty, take AWS's newest Hugging Face image",
        "ours": "the image is one of Slipway's, although nothing here says so",
        "output": "with --local: folder of the results; default: .slipway/jobs/JOB",
        **_JSON,
    },
)
def launch(
    c: Context,
    config: str,
    script: str,
    local: bool = False,
    dry_run: bool = False,
    detach: bool = False,
    wait: str = "",
    emit: str = "",
    official: bool = False,
    ours: bool = False,
    output: str = "",
    json: bool = False,
) -> None:
    """Launch a training job as accelerate would: invoke launch CONFIG SCRIPT -- ARGUMENTS."""
    from slipway.commands import launch as launching

    launching.launch(
        json,
        launching.Options(
            config=config,
            script=script,
            argv=launching.remainder(c.remainder),
            local=local,
            dry_run=dry_run,
            detach=detach,
            wait=wait,
            emit=emit,
            output=output,
            official=official,
            ours=ours,
        ),
    )


@task(
    positional=["image"],
    help={
        "image": "a URI, or the name of an image that was released or pushed here",
        "key": "the public key: a file, or a KMS address; default: as release.yml says",
        "identity": "instead of a key: who a keyless certificate must name",
        "issuer": "who must have vouched for that identity",
        **_JSON,
    },
)
def audit(c: Context, image: str, key: str = "", identity: str = "", issuer: str = "", json: bool = False) -> None:
    """Check an image's signature, SBOMs and provenance, with a public key alone."""
    from slipway.commands import supply

    supply.audit(image, key, identity, issuer, json)


@task(help={"every": "also images that newer ones have followed", **_JSON})
def rescan(c: Context, every: bool = False, json: bool = False) -> None:
    """Look for vulnerabilities in released images again; list what to rebuild."""
    from slipway.commands import supply

    supply.rescan(every, json)


@task(
    help={
        "to": "a folder, or the upload address of a package index; default: dist",
        "known": "the index's simple pages: what they have is not sent again",
        **_JSON,
    }
)
def wheels(c: Context, to: str = "dist", known: str = "", json: bool = False) -> None:
    """Build the toolkits' wheels for Dockerfiles of your own, as files or into a package index."""
    from slipway.commands import supply

    supply.wheels(to, known, json)


@task(help=SELECTORS)
@selecting
def ci_matrix(c: Context, selector: Selector) -> None:
    """Print images as the job matrix of a CI pipeline, one line of JSON."""
    from slipway.commands import supply

    supply.ci_matrix(selector)


@task(help=_JSON)
def doctor(c: Context, json: bool = False) -> None:
    """Check engine, store, buildx, disks and network, and say what to mend."""
    from slipway.commands import care

    care.doctor(json)


@task(
    help={
        "cache": "the engine's whole build cache as well, whoever filled it",
        "all": "root filesystems, renders and logs in the state folder as well",
        "dry_run": "only show what would go",
        **_JSON,
    }
)
def clean(c: Context, cache: bool = False, all: bool = False, dry_run: bool = False, json: bool = False) -> None:
    """Clear away what Slipway made: leftovers of runs, built images; nothing else."""
    from slipway.commands import care

    care.clean(cache, all, dry_run, json)


@task(
    help={
        "all": "slow tests too, the server's soak among them; what passed before on the same files is not run again",
        **_JSON,
    }
)
def check(c: Context, all: bool = False, json: bool = False) -> None:
    """Run every check of the project itself: lint, types, tests, all images for CPUs; no GPU image is built."""
    from slipway.commands import check as checking

    checking.check(all, json)
