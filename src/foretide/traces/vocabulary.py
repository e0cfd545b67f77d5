"""The words that generated texts are made of, most frequent first."""

from __future__ import annotations

__all__ = ["DOMAINS", "WORDS"]

WORDS: tuple[str, ...] = tuple(
    """
    the to and a of in is for on you it with that this at are we be have now
    just not but all today new love so good day time my great like get from more can about
    one was will what out up people when how they us game night team live news music world video
    market goal match vote film home city work week year free best next last first never always
    happy sad storm rain sun wind sea tide river bridge train flight traffic road car bus ticket
    price stock bank trade coin budget tax bill law court judge mayor senate election campaign debate poll
    party leader speech strike union wage job school student teacher exam book page story author poem
    actor scene stage concert band album song dance guitar drum voice radio show season episode series
    coach player striker keeper league final cup medal race record sprint marathon tennis football cricket rugby
    phone laptop screen chip cloud server network signal update release bug patch code data model robot
    doctor nurse clinic vaccine virus fever sleep heart diet coffee bread cheese apple rice pasta soup
    garden tree forest bird fish dog cat horse mountain lake island beach summer winter spring autumn
    police fire rescue alarm flood quake smoke power outage repair crew report photo camera museum gallery
    paint colour light dark morning evening weekend holiday birthday wedding friend family child mother father sister
    brother angry proud tired excited nervous calm brave lucky funny strange quick slow loud quiet bright
    cheap rich poor fair wrong right true false maybe really almost already together alone forever again
    """.split()
)

DOMAINS: tuple[str, ...] = tuple(
    f"{word}.{suffix}.example"
    for suffix in ("net", "shop", "cloud")
    for word in "mail www api cdn login static img news video search maps docs time update ads auth".split()
)
